/** Widths are measured once at this size and scaled: text grows in proportion. */
const SIZE = 32;
const MOST = 20_000;

export const FONT_FAMILY =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", sans-serif';

export function fontOf(size: number, weight: number): string {
  return `${weight} ${size}px ${FONT_FAMILY}`;
}

/** Measures text in ems of a weight. */
export type Ruler = (text: string, weight: number) => number;

export function canvasRuler(context: CanvasRenderingContext2D): Ruler {
  return (text, weight) => {
    context.font = fontOf(SIZE, weight);
    return context.measureText(text).width / SIZE;
  };
}

/** Text widths and shortened texts, remembered. */
export class Measure {
  private readonly widths = new Map<string, number>();
  private readonly shortened = new Map<string, string>();

  constructor(private readonly ruler: Ruler) {}

  /** Width in pixels at a font size. */
  width(text: string, size: number, weight: number): number {
    const key = `${weight}${text}`;
    let ems = this.widths.get(key);
    if (ems === undefined) {
      ems = this.ruler(text, weight);
      if (this.widths.size >= MOST) this.widths.clear();
      this.widths.set(key, ems);
    }
    return ems * size;
  }

  /**
   * The text, or as much of its beginning and end as fits, with an ellipsis between. The end gets
   * the larger part: it is what tells siblings apart. Empty when not even that fits.
   */
  fit(text: string, size: number, weight: number, room: number): string {
    if (this.width(text, size, weight) <= room) return text;
    const ems = Math.floor((room / size) * 4) / 4;
    const key = `${weight}|${ems}|${text}`;
    let short = this.shortened.get(key);
    if (short === undefined) {
      short = this.shorten(text, weight, ems);
      if (this.shortened.size >= MOST) this.shortened.clear();
      this.shortened.set(key, short);
    }
    return short;
  }

  private shorten(text: string, weight: number, ems: number): string {
    const points = Array.from(text); // never half of a surrogate pair
    let low = 0;
    let high = points.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.ruler(keep(points, middle), weight) <= ems) low = middle;
      else high = middle - 1;
    }
    return low === 0 ? '' : keep(points, low);
  }
}

function keep(points: string[], count: number): string {
  const head = Math.floor(count * 0.4);
  const tail = points.slice(points.length - (count - head)).join('');
  return `${points.slice(0, head).join('')}…${tail}`;
}
