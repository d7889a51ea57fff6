import { Grade, type GradeBand } from '../generated/graph_pb';

/** The grade a fraction falls into; what is not a number, or infinite, is the worst there is. */
export function gradeOf(fraction: number, bands: readonly GradeBand[]): Grade {
  const graded = bands.filter((band) => band.low !== undefined && band.high !== undefined);
  const last = graded.at(-1);
  if (!last) return Grade.UNGRADED;
  const size = Math.abs(fraction);
  if (!(size < 1)) return last.grade;
  return graded.find((band) => size >= band.low! && size < band.high!)?.grade ?? Grade.UNGRADED;
}

/** Roundings that are taken for rounding: a few of them add up in any sum. */
export const USUAL_ROUNDINGS = 4;
/** From here on two tensors have little in common. */
const OFF = 0.5;

const { OK, SLIGHT, MODERATE, SERIOUS, SEVERE } = Grade;
const RISING: readonly Grade[] = [SLIGHT, MODERATE, SERIOUS, SEVERE];

/**
 * What is rounding is fine. The way from there to half of the tensor's size is a quarter per grade,
 * counted in powers: the coarser the type, the shorter the way.
 */
export function beyondGrade(scaled: number, roundings: number): Grade {
  if (roundings <= USUAL_ROUNDINGS) return OK;
  const least = (scaled / roundings) * USUAL_ROUNDINGS;
  if (least >= OFF) return SEVERE;
  const part = Math.log(scaled / least) / Math.log(OFF / least);
  return RISING[Math.max(0, Math.min(3, Math.floor(part * 4)))]!;
}
