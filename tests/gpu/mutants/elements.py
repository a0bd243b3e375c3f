"""Mutants of the kernels that compare elements."""

from __future__ import annotations

from tests.mutants.mutant import of_rule

SCAN = of_rule(
    "gpu/scan.py",
    "scan",
    ("            over += 1", "            pass", "pairs that aren't good, counted again"),
    ("is_near |= int(not", "is_near = int(not", "all but a thread's last may fail"),
    ("top = max(top, bits & _MAGNITUDE)", "top = max(top, bits)", "negative errors are small"),
    ("below - minus * base", "below", "bits of the anchor count"),
    ("left_bits, size - 2 * below,", "left_bits, size,", "errors without their signs"),
    ("fits = top < reach and left == 0", "fits = left == 0", "terms too large for a grid"),
    ("fits = top < reach and left == 0", "fits = top < reach", "terms too fine for a grid"),
    ("            bad = 1\n            continue", "            continue", "a NaN is good"),
    (
        "if not (is_within(error, bound) and error <= batch.cap):",
        "if not is_within(error, bound):",
        "a cap is forgotten",
    ),
    (
        "if not (is_within(error, bound) and error <= batch.cap):",
        "if not error <= batch.cap:",
        "bounds are forgotten",
    ),
    ("near = 0.0  #", "near = 1.0  #", "an infinite bound has a share"),
    (
        "near = min(share_below(min(float_of(shared[0]), _LARGEST), _SHRUNK), 1.0)",
        "near = share_below(min(float_of(shared[0]), _LARGEST), _SHRUNK)",
        "what fails is seen only where it is the worst",
    ),
    ("_SHRUNK = 1.0 - 2.0**-50", "_SHRUNK = 1.01", "a percent more than was reached"),
    (" or not fits or not largest <= batch.cap", " or not fits", "no cap below the worst excess"),
    ("is_near != 0 or is_new or", "is_near != 0 or", "no larger error"),
    ("or (batch.in_order == 0 and largest == known)", "", "an earlier equal error"),
    ("is_dirty = cuda.syncthreads_or(np.int32(bad))", "is_dirty = bad", "one thread's elements"),
    ("range(cuda.blockIdx.x, dirty.size, c", "range(cuda.blockIdx.x, dirty.size - 1, c", "a tile"),
    (
        "        if fits:\n            finite += max(stop - start + THREADS - 1, 0) // THREADS",
        "        if fits:\n            finite += TILE // THREADS",
        "the last tile counts as a whole one",
    ),
    ("4 * class_of(r) + class_of(c)", "4 * class_of(c) + class_of(r)", "sides exchanged"),
    ("abs(c - r), c < r) != 0", "abs(c - r), False) != 0", "single errors without their signs"),
    ("            cuda.atomic.add(counts, LOST, 1)", "            pass", "infinite errors"),
    ("units[row, thread] += units[row, thread + span]", "pass", "units of one thread"),
    ("add_units(chunks, E, units[1, 0], finer)", "pass", "the finer grid"),
    ("add_units(chunks, ABS_E, units[2, 0], grid)", "pass", "no magnitudes"),
    ("cuda.atomic.add(counts, place, table[place])", "counts[place] = table[place]", "one block"),
    ("or (is_tie and error > own[2, thread])", "", "a larger error of the same excess"),
    ("tops[row, block] = own[row, 0]", "tops[row, block] = own[row, 1]", "another thread's"),
    ("            over += 1\n", "", "elements that fail"),
    ("            outside += over\n", "            outside = over\n", "of one tile"),
)

FOLD = of_rule(
    "gpu/fold.py",
    "blocks scan full",
    (
        "range(thread + THREADS, blocks, THREADS):\n        keep_worse",
        "():\n        keep_worse",
        "more blocks than threads",
    ),
    ("(is_same and is_before)", "is_same", "the last of equal extremes"),
    ("or (value == best[thread] and tie > old_tie)", "", "a larger error of the same excess"),
    ("places[thread, 0] < 0 or is_larger or", "is_larger or", "a first one that is zero"),
    ("best[2] = tie", "pass", "the error of the worst excess"),
    ("apart == furthest[thread] and ordinal < known", "False", "an earlier one as far"),
    ("known < 0 or apart > furthest", "apart > furthest", "a first one without a step"),
    ("(figure == best and ordinal < known)", "False", "an earlier sample as noisy"),
    ("known < 0 or figure > best", "figure > best", "a first sample without noise"),
)

EXTREMES = of_rule(
    "gpu/extremes.py",
    "scan full blocks",
    ("return first + sample", "return sample", "the number in the batch"),
    ("return bool(ordinal < other_ordinal)", "return bool(ordinal > other_ordinal)", "the last"),
    ("return bool(place % width < other % width)", "return False", "the last of a sample"),
    ("return bool(place >= 0)", "return bool(other >= 0)", "nothing is worse than something"),
    ("return bool(value > other_value)", "return bool(value < other_value)", "the best"),
    ("return bool(tie > other_tie)", "return False", "the first of equal excesses"),
    ("or (is_tie and precedes(place, own, width, first, ordinals))", "", "the first met"),
    ("(figure == best and is_before)", "False", "the first sample met"),
)

SUMS = of_rule(
    "gpu/sums.py",
    "scan full",
    ("((low >> 32) + (high & 0xFFFFFFFF))", "(high & 0xFFFFFFFF)", "no carry"),
    ("sign * (high >> 32))", "0)", "the upper third"),
    ("        field -= 1", "        pass", "twice what it is"),
    ("    if field > 0:", "    if field >= 0:", "subnormal numbers"),
    ("if field == 0x7FF:", "if False:", "infinite terms are added"),
    ("E, -term if is_negated else term)", "E, term)", "sums without signs"),
    ("if not abs(term) < power_of(exponent):", "if False:", "terms beyond the grid"),
    (
        "return units, bits_of(close) - bits_of(deep), left",
        "return units, 0, left",
        "the deep grid",
    ),
    ("left - (close - deep)\n", "0.0\n", "what is left"),
)

FAILING = of_rule(
    "gpu/failing.py",
    "failing",
    ("cuda.syncthreads()\n                    span", "span", "a barrier between joins"),
    ("if ref_class != FINITE or cand_class", "if cand_class", "references that aren't finite"),
    ("            bits |= bit\n", "", "the rule that it breaks"),
    (
        "            if bit != 0:\n                failing += 1",
        "            if True:\n                failing += 1",
        "a match",
    ),
    ("broken = min(broken, j)", "broken = j", "the last broken element"),
    ("is_good = is_within(error, bound)", "is_good = True", "bounds are forgotten"),
    ("if not error <= rule.cap:", "if False:", "a cap is forgotten"),
    ("ratio > top or (ratio == top and error > top_error)", "ratio > top", "the first"),
    ("ratio > top or (ratio == top and error > top_error)", "ratio >= top", "the last"),
    ("found[_OUTLYING, thread] += found[_OUTLYING, other]", "pass", "one thread's outliers"),
    ("found[_FAILING, thread] += found[_FAILING, other]", "pass", "one thread's elements"),
    ("found[_BITS, thread] |= found[_BITS, other]", "pass", "one thread's rules"),
    (
        "min(found[_BROKEN, thread], found[_BROKEN, other])",
        "found[_BROKEN, thread]",
        "one thread's",
    ),
    ("(other_top == top and other_size > size)", "False", "a larger error of the same excess"),
    ("(is_tie and found[_AT, other] < found[_AT, thread])", "False", "an earlier element"),
    ("if dirty[tile] == 0:", "if dirty[tile] != 0:", "tiles that are clean"),
    ("                    low = start // width + 1", "                    pass", "twice"),
    ("range(low * width // TILE, tile)", "range(tile)", "a sample of its own tile"),
    ("found[_FAILING, thread] > 0:", "found[_FAILING, thread] > 1:", "one element is forgiven"),
    (
        "found[_OUTLYING, thread] > rule.outliers",
        "found[_OUTLYING, thread] >= rule.outliers",
        "as many as are allowed",
    ),
    (
        "kept[slot, ROW], kept[slot, RULES] = before + sample, bits",
        "kept[slot, ROW], kept[slot, RULES] = sample, bits",
        "the number in the batch",
    ),
    ("place[0] = cuda.atomic.add(counts, FAILING, taken[0])", "place[0] = 0", "over others"),
    ("if found[_BROKEN, thread] < width:", "if False:", "broken elements are none"),
    ("(min(start + TILE, ref.size) - 1) // width", "(start + TILE) // width", "beyond the end"),
)

MEASURES = of_rule(
    "gpu/measures.py",
    "full blocks",
    ("elif low <= top < low + WINDOW:", "elif low <= top:", "bins beyond the window"),
    ("elif low <= top < low + WINDOW:", "elif top < low + WINDOW:", "bins below it"),
    ("cuda.atomic.add(bins, low + place, window[place])", "pass", "the window's counts"),
    ("                zeros += 1", "                pass", "no zeros"),
    (
        "                undefined += 1\n                continue\n            error",
        "                continue\n            error",
        "pairs without steps",
    ),
    ("not abs(r) >= batch.atol", "not abs(r) > batch.atol", "a reference of exactly atol"),
    ("is_earlier = batch.in_order == 0 and", "is_earlier = False and", "the first met"),
    ("return bits if bits >= 0 else _LOWEST - bits", "return bits", "steps over zero"),
    ("<= steps.top)", "< steps.top)", "the largest number"),
    ("product(r, error), of_re, 2,", "product(r, abs(error)), of_re, 2,", "signs"),
    ("rr, deep_rr = rr + coarse, deep_rr + deep", "rr = rr + coarse", "the deep grid"),
    ("LOST + row, 1)", "LOST, 1)", "which sum lost a term"),
    ("cuda.atomic.add(counted, 1, undefined)", "counted[1] = undefined", "one thread's"),
    ("units[row, thread] += units[row, thread + span]", "pass", "units of one thread"),
)

RANKS = of_rule(
    "gpu/ranks.py",
    "full blocks",
    ("if abs(r) < math.inf and abs(c) < math.inf:", "if True:", "what isn't finite"),
    (
        "return (first + third) + (second + fourth)",
        "return first + third + second + fourth",
        "in another order",
    ),
    (
        "widen(lanes[row, at + 1]) + widen(lanes[row, at + 5])",
        "widen(lanes[row, at + 1])",
        "a lane",
    ),
    ("base + whole, base + width, 1, sums", "base + whole, base + whole, 1, sums", "a tail"),
    ("not (0.0 < rr < math.inf and ee < math.inf)", "not 0.0 < rr < math.inf", "too much noise"),
    ("not (0.0 < rr < math.inf and ee < math.inf)", "not ee < math.inf", "no signal"),
    ("    if figure != figure:", "    if False:", "no cosine"),
    (
        "figure > known:\n        if batch.in_order != 0 or figure != known:\n            return\n",
        "figure > known:\n        if True:\n            return\n",
        "an earlier one met later",
    ),
    ("samples, cuda.gridDim.x * _TEAMS", "samples - 1, cuda.gridDim.x * _TEAMS", "a last sample"),
    ("at[kind, cuda.blockIdx.x] = own_at[kind, 0]", "at[kind, cuda.blockIdx.x] = 0", "which"),
)

WHOLE = of_rule(
    "gpu/whole.py",
    "whole",
    (
        "                outside += 1",
        "                pass",
        "pairs that aren't good, counted again",
    ),
    ("cuda.atomic.add(counted, 0, finite)", "counted[0] = finite", "one thread's pairs"),
    ("cuda.atomic.add(bins, 0, counted[1])", "pass", "none is equal"),
    ("error <= integer_bound(bound) and error <= cap", "error <= integer_bound(bound)", "no cap"),
    ("error <= integer_bound(bound) and error <= cap", "error <= cap", "no bounds"),
    ("if not (error <= integer_bound(bound) and", "if not (widen(error) <= bound and", "rounded"),
    (" or (is_tie and precedes(k, best, width, first, ordinals)):", ":", "the first met"),
    ("or (is_same and size > own[2, thread])", "", "a larger error of the same excess"),
    ("            if c < r:", "            if False:", "errors without their signs"),
    ("                add_term(chunks, left, c < r)", "                pass", "what is left"),
    ("                    add_one(chunks, EE, left)", "                    pass", "squares' rest"),
    ("                zeros += 1", "                pass", "no zeros"),
    ("cuda.atomic.add(bins, bin_of(size), 1)", "pass", "no bins"),
    ("syncthreads_or(np.int32(bad))", "syncthreads_or(np.int32(0))", "no tile is dirty"),
    ("                outside += 1\n", "", "elements that fail"),
    ("range(cuda.blockIdx.x, dirty.size, c", "range(cuda.blockIdx.x, dirty.size - 1, c", "a tile"),
)

WIDENING = of_rule(
    "gpu/widen.py",
    "widening",
    ("cuda.atomic.add(counts, at + thread, own", "cuda.atomic.add(counts, at, own", "one end"),
    ("if magnitude > form.most:", "if magnitude >= form.most:", "the largest number"),
    ("math.inf if magnitude == form.infinity else math.nan", "math.inf", "NaN are infinite"),
    ("if bits == form.undefined:", "if False:", "the NaN in place of -0"),
    ("if bits > form.digits else number", "if False else number", "no signs"),
    ("1 if flags[k] != 0 else 0", "flags[k]", "bytes that aren't 1"),
    ("if abs(value) < math.inf:", "if True:", "infinite values are at an end"),
    ("lows += 1 if value <= low", "lows += 1 if value < low", "the lowest itself"),
    ("highs += 1 if value >= high", "highs += 1 if value > high", "the highest itself"),
    ("cuda.atomic.add(own, 1, highs)", "own[1] = highs", "one thread's"),
)

WHOLE_FAILING = of_rule(
    "gpu/failing.py",
    "whole",
    ("is_good = error <= integer_bound(bound)", "is_good = widen(error) <= bound", "rounded"),
    ("if not error <= cap:", "if False:", "a cap is forgotten"),
    ("(ratio == top and size > tie)", "False", "a larger error of the same excess"),
)

SENT = of_rule(
    "gpu/checksum.py",
    "sent",
    ("unsigned(2 * k + 1)", "unsigned(1)", "words in any order"),
    ("if cuda.grid(1) == 0:", "if False:", "a stamp that counts nothing"),
    ("(total * unsigned(stamp))", "total", "sums of before"),
    ("words.size, cuda.gridsize(1)", "words.size - 1, cuda.gridsize(1)", "the last word"),
    ("cuda.atomic.add(sums, (row, 1), np.int64(total >> unsigned(_HALF)))", "pass", "a half"),
)

PICKED = of_rule(
    "gpu/gather.py",
    "picked",
    ("values[rows[at] * width + place]", "values[at * width + place]", "the first rows"),
    ("taken[at] = rows[at]", "taken[at] = at", "rows that weren't asked for"),
    ("k // width, k % width", "k // width, 0", "the first element of each"),
)

ELEMENTS = (
    *SCAN,
    *FOLD,
    *EXTREMES,
    *SUMS,
    *FAILING,
    *WHOLE_FAILING,
    *MEASURES,
    *RANKS,
    *WHOLE,
    *WIDENING,
    *SENT,
    *PICKED,
)
