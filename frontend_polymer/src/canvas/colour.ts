// Colours in OKLCH (Björn Ottosson, "A perceptual color space for image processing", 2020):
// lightness 0…1 as eyes see it, chroma 0 (grey) … 0.3, hue in radians.

export interface Oklch {
  readonly lightness: number;
  readonly chroma: number;
  readonly hue: number;
}

type Triple = readonly [number, number, number];

/** Of `#rrggbb`, or null for anything else. */
export function parseColour(text: string): Oklch | null {
  return /^#[0-9a-f]{6}$/i.test(text) ? toOklch(linear(text)) : null;
}

/** As `#rrggbb`; a chroma that no screen shows at this lightness is reduced until one does. */
export function formatColour({ lightness, chroma, hue }: Oklch): string {
  const level = Math.min(1, Math.max(0, lightness));
  let shown = toLinear({ lightness: level, chroma, hue });
  for (let left = chroma; left > 0.001 && !isShown(shown);) {
    left *= 0.95;
    shown = toLinear({ lightness: level, chroma: left, hue });
  }
  return `#${shown.map((value) => byte(encode(value))).join('')}`;
}

/** Contrast of two colours `#rrggbb` as WCAG 2.2 defines it, 1…21. */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high! + 0.05) / (low! + 0.05);
}

function luminance(colour: string): number {
  const [red, green, blue] = linear(colour);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function linear(colour: string): Triple {
  const channel = (at: number) => decode(parseInt(colour.slice(at, at + 2), 16) / 255);
  return [channel(1), channel(3), channel(5)];
}

function decode(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

function encode(value: number): number {
  return value <= 0.0031308 ? value * 12.92 : 1.055 * value ** (1 / 2.4) - 0.055;
}

function byte(value: number): string {
  const level = Math.round(Math.min(1, Math.max(0, value)) * 255);
  return level.toString(16).padStart(2, '0');
}

function isShown(colour: Triple): boolean {
  return colour.every((value) => value > -0.002 && value < 1.002);
}

function toOklch([red, green, blue]: Triple): Oklch {
  const long = Math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const middle = Math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const short = Math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  const a = 1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short;
  const b = 0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short;
  const lightness = 0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short;
  return { lightness, chroma: Math.hypot(a, b), hue: Math.atan2(b, a) };
}

function toLinear({ lightness, chroma, hue }: Oklch): Triple {
  const [a, b] = [chroma * Math.cos(hue), chroma * Math.sin(hue)];
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short,
  ];
}
