import { Direction } from '../generated/graph_pb';
import type { Graph } from '../data/graph';
import type { Frame } from './frame';
import { chevronRoom, hasBar, overflowOf, SHAPE_WIDTH, type Columns, type Item } from './items';
import { fontOf } from './measure';
import { sideText, valuesAt, valueText } from './unified';

const REGULAR = 400;
const STRONG = 600;

interface Piece {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly colour: string;
  readonly weight: number;
}

/** Name, class and call of each row, and its error. */
export function drawText(frame: Frame, items: Item[], columns: Columns): void {
  const pieces: Piece[] = [];
  for (const item of items) {
    const isHidden = frame.tree.isSeries(item.id) && item.isOpen;
    const ofRow = columns.areWide ? frame.difference : (node: number) => frame.tones.number(node);
    const error = isHidden ? '' : ofRow(item.node);
    addName(frame, item, nameEnd(frame, item, columns, error), pieces);
    if (columns.areShown && error !== '') addError(frame, item, columns, error, pieces);
    if (columns.areWide && !isHidden) addOutput(frame, item, columns, pieces);
    if (columns.areShown && frame.unified) addValues(frame, item, columns, pieces);
  }
  const { context } = frame.surface;
  context.textBaseline = 'middle';
  // Setting a font costs more than drawing a word: one pass per weight.
  for (const weight of [STRONG, REGULAR]) {
    context.font = fontOf(frame.placer.geometry.font, weight);
    for (const piece of pieces) {
      if (piece.weight !== weight) continue;
      context.fillStyle = piece.colour;
      context.fillText(piece.text, piece.x, piece.y);
    }
  }
}

/** A name may run through the columns that its row leaves empty. */
function nameEnd(frame: Frame, item: Item, columns: Columns, error: string): number {
  const { box } = item;
  const end = Math.min(box.x + box.width, frame.surface.width) - 6;
  if (!columns.areShown) return end;
  const { font } = frame.placer.geometry;
  const room = font * 0.6;
  if (columns.areWide) return Math.min(end, columns.shape - room);
  const values = valuesAt(frame, item).filter((value) => value !== '');
  if (values.length > 0) {
    const widest = Math.max(...values.map((value) => frame.measure.width(value, font, REGULAR)));
    return Math.min(end, columns.debug - widest - room);
  }
  if (overflowOf(frame, item) !== 0) return Math.min(end, columns.flag - room);
  if (hasBar(frame, item)) return Math.min(end, columns.bar - room);
  return error === '' ? end : Math.min(end, columns.error - room);
}

function addName(frame: Frame, item: Item, end: number, pieces: Piece[]): void {
  const { graph, tree, measure, palette } = frame;
  const { geometry } = frame.placer;
  const { id, node, box, tone, hasChildren } = item;
  const { font } = geometry;
  const { text, quiet } = palette.tones[tone]!;
  const weight = hasChildren ? STRONG : REGULAR;
  const y = middleOf(item, font);
  let x = box.x + (hasChildren ? chevronRoom(font) : font * 0.6);
  const { title, type } = tree.label(id);
  const shown = measure.fit(title, font, weight, end - x);
  if (shown === '') return;
  pieces.push({ text: shown, x, y, colour: text, weight });
  x += measure.width(shown, font, weight);
  if (!geometry.hasDetails) return;

  const layers = tree.layers(id);
  const details: { choices: string[]; lead: number; weight?: number }[] = [
    { choices: type === '' ? [] : [`· ${type}`], lead: font * 0.3 },
    { choices: layers === 0 ? [] : [`×${layers}`], lead: font * 0.4, weight: STRONG },
    { choices: callTexts(graph, node), lead: font * 0.75 },
    { choices: automaticText(graph, node), lead: font * 0.75 },
    { choices: sideText(frame, item), lead: font * 0.75, weight: STRONG },
  ];
  for (const { choices, lead, weight = REGULAR } of details) {
    const width = (choice: string) => measure.width(choice, font, weight);
    const fitting = choices.find((choice) => x + lead + width(choice) <= end);
    if (fitting === undefined) continue;
    pieces.push({ text: fitting, x: x + lead, y, colour: quiet, weight });
    x += lead + width(fitting);
  }
}

/** `≈ 87 %` where evidence alone says that the two belong together. */
function automaticText(graph: Graph, node: number): string[] {
  return graph.isAutomatic(node) ? [`≈ ${graph.certainty[node]} %`, '≈'] : [];
}

function addError(frame: Frame, item: Item, columns: Columns, error: string, to: Piece[]): void {
  const { font } = frame.placer.geometry;
  const right = columns.ticks - font * 0.5;
  const x = right - frame.measure.width(error, font, REGULAR);
  const colour = frame.palette.tones[item.tone]!.text;
  to.push({ text: error, x, y: middleOf(item, font), colour, weight: REGULAR });
}

/** The norms of both sides, debug left. */
function addValues(frame: Frame, item: Item, columns: Columns, to: Piece[]): void {
  const { font } = frame.placer.geometry;
  const colour = frame.palette.tones[item.tone]!.text;
  const values = valuesAt(frame, item);
  for (const [side, right] of [columns.debug, columns.reference].entries()) {
    const text = values[side] ?? '';
    if (text === '') continue;
    const x = right - frame.measure.width(text, font, REGULAR);
    to.push({ text, x, y: middleOf(item, font), colour, weight: REGULAR });
  }
}

/** Shape, type and norm of what a node puts out. */
function addOutput(frame: Frame, item: Item, columns: Columns, to: Piece[]): void {
  const { facts, side, measure, palette } = frame;
  const { font } = frame.placer.geometry;
  const { quiet, text } = palette.tones[item.tone]!;
  const y = middleOf(item, font);
  const kind = facts.tensors[(facts.tensorOf[side][item.node] ?? 0) - 1] ?? '';
  const cut = kind.lastIndexOf(' ');
  const width = (SHAPE_WIDTH * font) / 13 - font;
  const shape = measure.fit(kind.slice(0, Math.max(0, cut)), font, REGULAR, width);
  const dtype = kind.slice(cut + 1).replace(/^(torch|mindspore)\./, '');
  const norm = valueText(facts.values[side][item.node]);
  const x = columns.norm - measure.width(norm, font, REGULAR);
  for (const piece of [
    { text: shape, x: columns.shape, colour: quiet },
    { text: dtype, x: columns.dtype, colour: quiet },
    { text: norm, x, colour: text },
  ]) {
    if (piece.text !== '') to.push({ ...piece, y, weight: REGULAR });
  }
}

function middleOf({ box }: Item, font: number): number {
  return box.y + box.height / 2 + font * 0.06;
}

/** `forward 0`, or shorter; backward has an arrow against the stream. */
export function callTexts(graph: Graph, node: number): string[] {
  const call = graph.call[node]!;
  switch (graph.directionOf(node)) {
    case Direction.FORWARD:
      return [`forward ${call}`, `→ ${call}`];
    case Direction.BACKWARD:
      return [`← backward ${call}`, `← ${call}`];
    case Direction.NONE:
      return [];
  }
}
