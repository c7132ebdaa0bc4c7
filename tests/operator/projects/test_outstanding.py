"""Which projects a round looks at."""

from gpufleet.kube.mirror_changes import Appeared, Changed, Listed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects import gpu_projects as wire
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.operator.projects.differences import ProjectObject
from gpufleet.operator.projects.outstanding import Outstanding


def project(name: str) -> wire.GpuProject:
    """A project that says little."""
    return wire.GpuProject(Metadata(name=name), wire.GpuProjectSpec(namespaces=(name,)))


def labelled(of: str) -> ProjectObject:
    """An object of a project."""
    return ProjectObject(Metadata(name="one", labels={"gpufleet.io/project": of} if of else {}))


def test_a_project_that_comes_changes_or_goes_is_looked_at() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_project(Listed())
    assert outstanding.take() == frozenset()
    outstanding.heard_of_project(Appeared(project("comes")))
    outstanding.heard_of_project(Changed(project("changes"), project("changes")))
    outstanding.heard_of_project(Vanished(project("goes")))
    assert outstanding.take() == {"comes", "changes", "goes"}


def test_a_project_is_looked_at_when_it_can_be_read_no_more_and_when_that_version_is_gone() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_project(Unreadable("", "newer", "1", "fields of another release"))
    outstanding.heard_of_project(UnreadableGone("", "gone", "2"))
    assert outstanding.take() == {"newer", "gone"}


def test_an_object_concerns_the_project_that_its_label_names() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Vanished(labelled("vision")))
    outstanding.heard_of_object(Appeared(labelled("")))
    assert outstanding.take() == {"vision"}


def test_an_object_that_goes_from_one_project_to_another_concerns_both() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Changed(labelled("vision"), labelled("speech")))
    assert outstanding.take() == {"vision", "speech"}


def test_what_was_taken_is_looked_at_again_only_if_it_is_put_back() -> None:
    outstanding = Outstanding()
    outstanding.heard_of_object(Appeared(labelled("vision")))
    outstanding.heard_of_object(Appeared(labelled("speech")))
    assert outstanding.take() == {"vision", "speech"}
    outstanding.put_back("speech")
    assert outstanding.take() == {"speech"}
