// All steps and ranks in one picture, where they are too many for cells in view.

import { PART_TONES } from '../../canvas/tone';
import type { Palette } from '../../canvas/palette';
import type { DatabaseFile, GraphPair } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { isJudged, outcomeOf, OUTCOMES, type Place } from './heat-cell';

/** Fewer ranks than this fit side by side as cells. */
const FROM_RANKS = 65;
const TALLEST_STEP = 12;
const HIGHEST = 240;

interface Strip {
  readonly element: HTMLElement;
  /** The graph at a point of the picture. */
  placeAt(event: MouseEvent): Place | undefined;
}

/** A line per step, as wide as there is room; each pixel is the worst of its ranks. */
export function heatStrip(
  file: DatabaseFile,
  palette: Palette,
  width: number,
  text: Texts,
): Strip | null {
  const steps = [...new Set(file.graphs.map(({ step }) => step))].sort((a, b) => a - b);
  const ranks = [...new Set(file.graphs.map(({ rank }) => rank))].sort((a, b) => a - b);
  if (ranks.length < FROM_RANKS || width === 0 || !isJudged(file)) return null;
  const tall = Math.max(2, Math.min(TALLEST_STEP, Math.floor(HIGHEST / steps.length)));
  const wide = width / ranks.length;
  const canvas = document.createElement('canvas');
  const ratio = window.devicePixelRatio;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(steps.length * tall * ratio);
  canvas.style.cssText = `width: ${width}px; height: ${steps.length * tall}px`;
  const context = canvas.getContext('2d')!;
  context.scale(ratio, ratio);
  const lines = new Map(steps.map((step, at) => [step, at]));
  const columns = new Map(ranks.map((rank, at) => [rank, at]));
  // The one to look at first is drawn last, over those it shares pixels with.
  for (const pair of [...file.graphs].sort((a, b) => weight(b) - weight(a))) {
    const { part } = outcomeOf(pair);
    const [x, y] = [columns.get(pair.rank)! * wide, lines.get(pair.step)! * tall];
    context.fillStyle = palette.tones[PART_TONES[part]]!.solid;
    context.fillRect(x, y, Math.max(wide, part === 'suspect' ? 2 : 1), tall - 1);
  }
  const lead = file.verdict?.suspects[0];
  if (lead) {
    context.strokeStyle = palette.selection;
    context.lineWidth = 2;
    const [x, y] = [columns.get(lead.rank)! * wide, lines.get(lead.step)! * tall];
    context.strokeRect(x - 3, Math.max(1, y - 3), wide + 6, tall + 5);
  }
  canvas.role = 'img';
  const beginning = lead ? text.overview.begins(lead.step, lead.rank) : '';
  canvas.ariaLabel = text.shell.sentences(
    text.overview.strip(steps.length, ranks.length),
    beginning,
  );
  const caption = create('p', 'muted', beginning);
  const element = create('div', 'whole');
  element.append(canvas, caption);
  return {
    element,
    placeAt: ({ offsetX, offsetY, target }) => {
      if (target !== canvas) return undefined;
      const [step, rank] = [steps[Math.floor(offsetY / tall)], ranks[Math.floor(offsetX / wide)]];
      return step === undefined || rank === undefined ? undefined : { step, rank };
    },
  };
}

function weight(pair: GraphPair): number {
  return OUTCOMES.indexOf(outcomeOf(pair));
}
