"""Whether a valuation says anything new.

After a valuation every cached score is out of date, which on a large fleet costs more than a thousand
decisions. In a steady state valuations differ by next to nothing, so one that would move no score by
more than rounding is not taken over, except for when the next one is due. ``policy_state`` asks.
"""

import msgspec

from gpufleet.engine.valuation import FULL_SHARE, ONE_GPU, ONE_PRICE, HostCurve, SlotKind, Valuation

# Each is so small a part that scores by the old and the new valuation differ by next to nothing.
VALUE_STEP = ONE_GPU // 256
SHARE_STEP = FULL_SHARE // 64
PRICE_STEP = ONE_PRICE // 32
SPAN_STEP_PCT = 2
BONUS_STEP = ONE_GPU // 256


def says_something_new(old: Valuation, new: Valuation) -> bool:
    """True if scores by the new valuation would differ noticeably from those by the old one."""
    return not (
        all_close(old.value_by_milli, new.value_by_milli, VALUE_STEP)
        and same_curve(old.cpu, new.cpu)
        and same_curve(old.memory, new.memory)
        and old.price_by_model.keys() == new.price_by_model.keys()
        and all_close(
            tuple(old.price_by_model.values()),
            tuple(new.price_by_model[model] for model in old.price_by_model),
            PRICE_STEP,
        )
        and same_bonuses(old.slots, new.slots)
    )


def with_marks_of(old: Valuation, new: Valuation) -> Valuation:
    """The old valuation's values with the new one's marks: what it watches, and when the next is due."""
    slots = new.slots
    # Without any bonus the levels may be of other needs, so they are not matched one by one.
    if any_bonus(old.slots) or any_bonus(new.slots):
        slots = tuple(
            SlotKind(
                kind.gpus,
                tuple(
                    msgspec.structs.replace(after, bonus=before.bonus)
                    for before, after in zip(kind.levels, other.levels, strict=True)
                ),
            )
            for kind, other in zip(old.slots, new.slots, strict=True)
        )
    return msgspec.structs.replace(
        old,
        slots=slots,
        model_low_milli=new.model_low_milli,
        free_low_milli=new.free_low_milli,
        free_high_milli=new.free_high_milli,
    )


def all_close(old: tuple[int, ...], new: tuple[int, ...], step: int) -> bool:
    """True if the numbers differ by less than a step each."""
    return all(abs(before - after) < step for before, after in zip(old, new, strict=True))


def same_curve(old: HostCurve, new: HostCurve) -> bool:
    """True if the curves have nearly the same extent and shares."""
    longer = max(old.span, new.span)
    return 100 * abs(old.span - new.span) <= SPAN_STEP_PCT * longer and all_close(
        old.shares, new.shares, SHARE_STEP
    )


def same_bonuses(old: tuple[SlotKind, ...], new: tuple[SlotKind, ...]) -> bool:
    """True if slots are worth the same: nothing now as before, or the same at the same needs."""
    if not any_bonus(old) and not any_bonus(new):
        return True
    if needs(old) != needs(new):
        return False
    return all(
        abs(before.bonus - after.bonus) < BONUS_STEP * kind.gpus
        for kind, other in zip(old, new, strict=True)
        for before, after in zip(kind.levels, other.levels, strict=True)
    )


def any_bonus(slots: tuple[SlotKind, ...]) -> bool:
    """True if any slot is worth more than its GPUs."""
    return any(level.bonus for kind in slots for level in kind.levels)


def needs(slots: tuple[SlotKind, ...]) -> list[tuple[int, list[tuple[int, int]]]]:
    """What the levels of each kind of slot ask for."""
    return [(kind.gpus, [(level.cpu_milli, level.memory_mib) for level in kind.levels]) for kind in slots]
