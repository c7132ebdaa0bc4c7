"""Which projects a round looks at."""

from gpufleet.kube.mirror_changes import Appeared, Changed, Listed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.pending_projects import PendingProjects

MANY = 100


def project(name: str) -> wire.GpuProject:
    """A project that says little."""
    return wire.GpuProject(Metadata(name=name), wire.GpuProjectSpec(namespaces=(name,)))


def labelled(of: str) -> ProjectObject:
    """An object of a project."""
    return ProjectObject(Metadata(name="one", labels={"gpufleet.io/project": of} if of else {}))


def test_a_project_that_comes_changes_or_goes_is_looked_at() -> None:
    pending = PendingProjects()
    pending.on_project(Listed())
    assert pending.take(MANY) == ()
    pending.on_project(Appeared(project("comes")))
    pending.on_project(Changed(project("changes"), project("changes")))
    pending.on_project(Vanished(project("goes")))
    assert set(pending.take(MANY)) == {"comes", "changes", "goes"}


def test_a_project_is_looked_at_when_it_can_be_read_no_more_and_when_that_version_is_gone() -> None:
    pending = PendingProjects()
    pending.on_project(Unreadable("", "newer", "1", "fields of another release"))
    pending.on_project(UnreadableGone("", "gone", "2"))
    assert set(pending.take(MANY)) == {"newer", "gone"}


def test_an_object_concerns_the_project_that_its_label_names() -> None:
    pending = PendingProjects()
    pending.on_object(Vanished(labelled("vision")))
    pending.on_object(Appeared(labelled("")))
    assert set(pending.take(MANY)) == {"vision"}


def test_an_object_that_goes_from_one_project_to_another_concerns_both() -> None:
    pending = PendingProjects()
    pending.on_object(Changed(labelled("vision"), labelled("speech")))
    assert set(pending.take(MANY)) == {"vision", "speech"}


def test_what_was_taken_is_looked_at_again_only_if_it_is_put_back() -> None:
    pending = PendingProjects()
    pending.on_object(Appeared(labelled("vision")))
    pending.on_object(Appeared(labelled("speech")))
    assert set(pending.take(MANY)) == {"vision", "speech"}
    pending.put_back("speech", is_at_rest=True)
    assert set(pending.take(MANY)) == {"speech"}


def test_a_round_takes_so_many_and_the_others_in_the_order_of_their_changes() -> None:
    pending = PendingProjects()
    for name in ("first", "second", "third"):
        pending.on_project(Appeared(project(name)))
    assert pending.take(2) == ("first", "second")
    assert pending.has_changes()
    pending.put_back("first", is_at_rest=False)
    assert pending.take(2) == ("third", "first")
    assert not pending.has_changes()


def test_what_was_put_back_asks_for_a_round_of_its_own_unless_it_is_at_rest() -> None:
    pending = PendingProjects()
    pending.put_back("taken", is_at_rest=True)
    assert not pending.is_unfinished()
    pending.put_back("written", is_at_rest=False)
    assert pending.is_unfinished()
    assert not pending.has_changes()
    assert pending.take(MANY) == ("taken", "written")
    assert not pending.is_unfinished()


def test_what_was_at_rest_is_repaired_before_new_projects_are_made() -> None:
    pending = PendingProjects()
    pending.rest("vision")
    pending.on_project(Appeared(project("new")))
    pending.on_object(Vanished(labelled("vision")))
    assert pending.take(1) == ("vision",)
    pending.put_back("vision", is_at_rest=False)
    pending.on_object(Appeared(labelled("vision")))
    assert pending.take(1) == ("new",)


def test_a_project_that_was_deleted_and_made_anew_is_new() -> None:
    pending = PendingProjects()
    pending.rest("vision")
    pending.on_project(Vanished(project("vision")))
    assert pending.take(1) == ("vision",)
    pending.on_project(Appeared(project("new")))
    pending.on_project(Appeared(project("vision")))
    assert pending.take(1) == ("new",)
