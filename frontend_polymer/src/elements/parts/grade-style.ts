import { overflowTone } from '../../canvas/tone';
import { Grade } from '../../generated/graph_pb';
import type { OverflowLevel } from './words';

/** The colours of a grade, as the canvas has them; `ga-app` sets the properties. */
export function gradeStyle(grade: Grade): string {
  return toneStyle(grade);
}

export function overflowStyle(level: OverflowLevel): string {
  return toneStyle(overflowTone(level));
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
