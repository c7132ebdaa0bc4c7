"""A property that is worked out at its first reading, and only then."""

from dataclasses import dataclass

from gpufleet.model.worked_out_once import worked_out_once

asked: list[int] = []


@dataclass(frozen=True)
class Square:
    """A square."""

    side: int

    @worked_out_once
    def area(self) -> int:
        """The side times itself."""
        asked.append(self.side)
        return self.side * self.side


def test_it_is_worked_out_once_for_each_object() -> None:
    asked.clear()
    three, four = Square(3), Square(4)
    assert (three.area, three.area, four.area) == (9, 9, 16)
    assert asked == [3, 4]


def test_what_is_kept_is_no_part_of_equality() -> None:
    read = Square(5)
    assert read.area == 25
    assert read == Square(5)


def test_on_the_class_stands_the_property_with_its_words() -> None:
    assert Square.area.__doc__ == "The side times itself."
