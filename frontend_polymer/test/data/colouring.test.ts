import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { colouringOf, errorText, hasMeasures, Mark, PARTS } from '../../src/data/colouring';
import type { Graph } from '../../src/data/graph';
import { beyondGrade } from '../../src/data/grades';
import {
  CallRole,
  Direction,
  Grade,
  GradeBandSchema,
  Kind,
  MeasuresSchema,
} from '../../src/generated/graph_pb';
import { graphPair, type Sketch } from '../graphs/synthetic';

const { OK, SLIGHT, MODERATE, SERIOUS, SEVERE, UNGRADED, UNMATCHED } = Grade;
const BANDS = [OK, SLIGHT, MODERATE, SERIOUS, SEVERE].map((grade, at) =>
  create(GradeBandSchema, { grade, low: at / 5, high: (at + 1) / 5 }),
);

const call = (number: number, grade: Grade, error: number): Sketch => ({
  ...{ stem: 'Torch.add', kind: Kind.API, direction: Direction.FORWARD, call: number },
  ...{ key: `add${number}`, grade, error },
});
const MODEL: Sketch = {
  ...{ stem: 'DefaultModel', key: 'root' },
  children: [
    call(0, OK, 0),
    call(1, SEVERE, 1),
    call(2, SEVERE, 0.9),
    call(3, OK, 0.1),
    { ...call(4, UNMATCHED, -1), key: 'alone' },
    call(5, OK, 0),
  ],
};
const REFERENCE = { ...MODEL, children: MODEL.children!.filter(({ key }) => key !== 'alone') };
const [graph, reference] = graphPair(MODEL, REFERENCE);
/** A graph as it is with a verdict. */
function withRoles(of: Graph, roles: readonly CallRole[]): Graph {
  const made = Object.create(of) as Graph;
  return Object.defineProperties(made, { role: { value: Uint8Array.from(roles) } });
}

const UNIT = 2 ** -20;
const SCALED = [-1, 1e-7, 0.01, 0.5, 0.3, -1, -1];
const measures = create(MeasuresSchema, {
  scaled: SCALED,
  roundings: SCALED.map((error) => (error < 0 ? -1 : error / UNIT)),
});
const known = { measures, bands: BANDS };
const grades = (mode: Parameters<typeof colouringOf>[1]) => [
  ...colouringOf(graph, mode, known, false).grade,
];

describe('a colouring', () => {
  test('by the documented error leaves the grades as they are', () => {
    const { grade, rollup } = colouringOf(graph, 'precision', known, false);
    expect(grade).toBe(graph.grade);
    expect(rollup).toBe(graph.rollup);
  });

  test('by the scaled error goes by the bands of the file', () => {
    expect(grades('scaled')).toEqual([UNGRADED, OK, OK, MODERATE, SLIGHT, UNMATCHED, OK]);
  });

  test('beyond rounding leaves rounding pale and goes by powers from there', () => {
    expect(grades('beyond')).toEqual([UNGRADED, OK, SERIOUS, SEVERE, SEVERE, UNMATCHED, OK]);
  });

  test('by the verdict says what part each node plays, whatever its error', () => {
    const { UNKNOWN, CLEAN, SUSPECT, CARRIER, AMPLIFIER } = CallRole;
    const roles = [UNKNOWN, CLEAN, SUSPECT, CARRIER, UNKNOWN, UNKNOWN, AMPLIFIER];
    const judged = withRoles(graph, roles);
    const { unjudged, clean, suspect, carrier, given } = PARTS;
    expect([...colouringOf(judged, 'role', known, false).grade]).toEqual([
      ...[unjudged, clean, suspect, carrier, unjudged, UNMATCHED, carrier],
    ]);
    // What a clean verdict explains is nobody's fault.
    expect([...colouringOf(judged, 'role', { ...known, isClean: true }, false).grade]).toEqual([
      ...[unjudged, clean, unjudged, unjudged, unjudged, UNMATCHED, unjudged],
    ]);
    // The verdict accuses calls that the debug side lacks: the reference has nothing else to tell.
    const suspects = [Int32Array.of(5), Int32Array.of(2)] as const;
    const accused = { ...known, suspects };
    expect(colouringOf(judged, 'role', accused, false).grade[5]).toBe(suspect);
    const parts = colouringOf(reference, 'role', accused, true).grade;
    expect([...parts]).toEqual([given, given, suspect, given, given, given]);
  });

  test('counts by its own grades', () => {
    const { rollup } = colouringOf(graph, 'scaled', known, false);
    expect(rollup.grade(OK, 0, graph.count)).toBe(3);
    expect(rollup.worstGrade(0, graph.count)).toBe(MODERATE);
  });

  test('is made once for who asks for the same', () => {
    const made = colouringOf(graph, 'scaled', known, false);
    expect(colouringOf(graph, 'scaled', { ...known }, false)).toBe(made);
    const others = { ...measures, scaled: measures.scaled.map(() => 0) };
    expect(colouringOf(graph, 'scaled', { ...known, measures: others }, false)).not.toBe(made);
    expect(colouringOf(graph, 'beyond', known, false)).not.toBe(made);
  });

  test('of the reference, or without measures of this graph, is the documented one', () => {
    expect(colouringOf(reference, 'scaled', known, true).grade).toBe(reference.grade);
    expect(colouringOf(reference, 'scaled', known, false).grade).toBe(reference.grade);
    expect(hasMeasures(measures, graph)).toBe(true);
    expect(hasMeasures(measures, reference)).toBe(false);
    expect(hasMeasures(null, graph)).toBe(false);
  });

  test('marks what the documented error makes too much of, and what it hides', () => {
    const { mark } = colouringOf(graph, 'precision', known, false);
    expect([...mark!]).toEqual([
      ...[Mark.NONE, Mark.NONE, Mark.NEAR_ZERO, Mark.NONE, Mark.HIDDEN, Mark.NONE, Mark.NONE],
    ]);
  });

  test('writes its own number', () => {
    const number = (mode: Parameters<typeof colouringOf>[1], index: number, asPower = false) =>
      colouringOf(graph, mode, known, false).number(index, asPower);
    expect([0, 1, 2, 3, 4].map((index) => number('precision', index))).toEqual([
      ...['', '', '1', '0.900', '0.100'],
    ]);
    expect([1, 2, 3, 4, 6].map((index) => number('scaled', index))).toEqual([
      ...['<0.1 %', '1.0 %', '50 %', '30 %', ''],
    ]);
    expect(number('scaled', 1, true)).toBe('1e-7');
    expect([1, 2, 3].map((index) => number('beyond', index))).toEqual(['<×1', '×1e4', '×5e5']);
  });
});

describe('beyond rounding', () => {
  test.each([
    [2 ** -23, [3e-7, 4e-6, 1e-4, 1e-2, 0.4]],
    [2 ** -7, [0.02, 0.04, 0.08, 0.2, 0.4]],
  ])('with a rounding of %f the grades rise with the error', (unit, errors) => {
    const found = errors.map((error) => beyondGrade(error, error / unit));
    expect(found).toEqual([OK, SLIGHT, MODERATE, SERIOUS, SEVERE]);
  });

  test('a type too coarse to tell is severe at once', () => {
    expect(beyondGrade(2, 8)).toBe(SEVERE);
    expect(beyondGrade(0.9, 3.9)).toBe(OK);
  });
});

test('small errors are told apart as powers of ten', () => {
  expect(errorText(6e-8)).toBe('<0.001');
  expect(errorText(6e-8, true)).toBe('6e-8');
  expect(errorText(0.05, true)).toBe('0.050');
  expect(errorText(0, true)).toBe('');
});
