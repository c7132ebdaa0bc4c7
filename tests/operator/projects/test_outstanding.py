"""Which projects a round looks at."""

from gpufleet.kube.mirror_changes import Appeared, Changed, Listed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.outstanding import Outstanding

MANY = 100


def project(name: str) -> wire.GpuProject:
    """A project that says little."""
    return wire.GpuProject(Metadata(name=name), wire.GpuProjectSpec(namespaces=(name,)))


def labelled(of: str) -> ProjectObject:
    """An object of a project."""
    return ProjectObject(Metadata(name="one", labels={"gpufleet.io/project": of} if of else {}))


def test_a_project_that_comes_changes_or_goes_is_looked_at() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_project(Listed())
    assert outstanding.take(MANY) == ()
    outstanding.heard_of_project(Appeared(project("comes")))
    outstanding.heard_of_project(Changed(project("changes"), project("changes")))
    outstanding.heard_of_project(Vanished(project("goes")))
    assert set(outstanding.take(MANY)) == {"comes", "changes", "goes"}


def test_a_project_is_looked_at_when_it_can_be_read_no_more_and_when_that_version_is_gone() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_project(Unreadable("", "newer", "1", "fields of another release"))
    outstanding.heard_of_project(UnreadableGone("", "gone", "2"))
    assert set(outstanding.take(MANY)) == {"newer", "gone"}


def test_an_object_concerns_the_project_that_its_label_names() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Vanished(labelled("vision")))
    outstanding.heard_of_object(Appeared(labelled("")))
    assert set(outstanding.take(MANY)) == {"vision"}


def test_an_object_that_goes_from_one_project_to_another_concerns_both() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Changed(labelled("vision"), labelled("speech")))
    assert set(outstanding.take(MANY)) == {"vision", "speech"}


def test_what_was_taken_is_looked_at_again_only_if_it_is_put_back() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Appeared(labelled("vision")))
    outstanding.heard_of_object(Appeared(labelled("speech")))
    assert set(outstanding.take(MANY)) == {"vision", "speech"}
    outstanding.put_back("speech", is_at_rest=True)
    assert set(outstanding.take(MANY)) == {"speech"}


def test_a_round_takes_so_many_and_the_others_in_the_order_of_their_changes() -> None:
    outstanding = Outstanding()
    for name in ("first", "second", "third"):
        outstanding.heard_of_project(Appeared(project(name)))
    assert outstanding.take(2) == ("first", "second")
    assert outstanding.has_changes()
    outstanding.put_back("first", is_at_rest=False)
    assert outstanding.take(2) == ("third", "first")
    assert not outstanding.has_changes()


def test_what_was_put_back_asks_for_a_round_of_its_own_unless_it_is_at_rest() -> None:
    outstanding = Outstanding()
    outstanding.put_back("taken", is_at_rest=True)
    assert not outstanding.is_unfinished()
    outstanding.put_back("written", is_at_rest=False)
    assert outstanding.is_unfinished()
    assert not outstanding.has_changes()
    assert outstanding.take(MANY) == ("taken", "written")
    assert not outstanding.is_unfinished()


def test_what_was_at_rest_is_repaired_before_new_projects_are_made() -> None:
    outstanding = Outstanding()
    outstanding.rest("vision")
    outstanding.heard_of_project(Appeared(project("new")))
    outstanding.heard_of_object(Vanished(labelled("vision")))
    assert outstanding.take(1) == ("vision",)
    outstanding.put_back("vision", is_at_rest=False)
    outstanding.heard_of_object(Appeared(labelled("vision")))
    assert outstanding.take(1) == ("new",)


def test_a_project_that_was_deleted_and_made_anew_is_new() -> None:
    outstanding = Outstanding()
    outstanding.rest("vision")
    outstanding.heard_of_project(Vanished(project("vision")))
    assert outstanding.take(1) == ("vision",)
    outstanding.heard_of_project(Appeared(project("new")))
    outstanding.heard_of_project(Appeared(project("vision")))
    assert outstanding.take(1) == ("new",)
