import type { Palette } from '../../canvas/palette';
import { overflowTone, PART_TONES } from '../../canvas/tone';
import { Grade } from '../../generated/graph_pb';
import type { OverflowLevel } from './words';

/** The colours of a grade, as the canvas has them; `setGradeColours` sets the properties. */
export function gradeStyle(grade: Grade): string {
  return toneStyle(grade);
}

export function overflowStyle(level: OverflowLevel): string {
  return toneStyle(overflowTone(level));
}

/** What a node, or a whole graph, plays in the verdict. */
export type Part = keyof typeof PART_TONES;

export function partStyle(part: Part): string {
  return toneStyle(PART_TONES[part]);
}

function toneStyle(tone: number): string {
  const part = (name: string) => `var(--ga-grade-${tone}-${name})`;
  return `background: ${part('fill')}; color: ${part('text')}; border-color: ${part('stroke')}`;
}

/** Severity without colour: a bar per grade above OK, as on the canvas; the style of `.bars`. */
export function gradeBars(grade: Grade): string {
  const count = grade > Grade.OK && grade <= Grade.SEVERE ? grade - Grade.OK : 0;
  return count > 0 ? `--bars: ${count}` : 'display: none';
}

/** Gives an element, and all that it holds, the colours of the canvas as properties. */
export function setGradeColours({ style }: HTMLElement, { tones }: Palette): void {
  for (const [grade, tone] of tones.entries()) {
    for (const part of ['fill', 'stroke', 'text', 'solid'] as const) {
      style.setProperty(`--ga-grade-${grade}-${part}`, tone[part]);
    }
  }
}
