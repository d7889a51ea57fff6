import { GRADES } from '../data/codes';
import { Grade } from '../generated/graph_pb';
import { contrast, formatColour, parseColour, type Oklch } from './colour';

export type Theme = 'light' | 'dark';

/** The colour of a grade on white, `#rrggbb`, as the database has it. */
export interface GradeColour {
  readonly grade: Grade;
  readonly colour: string;
}

/** How one colour class is painted. */
export interface Tone {
  readonly fill: string;
  readonly stroke: string;
  /** Of the name on `fill`. */
  readonly text: string;
  /** Of the class and call number on `fill`. */
  readonly quiet: string;
  /** Where there is no text: distribution bars, minimap, overview. */
  readonly solid: string;
  /** Severity without colour: this many ticks in front of the name. */
  readonly ticks: 0 | 1 | 2 | 3 | 4;
  readonly dashed: boolean;
}

export interface Palette {
  /** Indexed by grade, then overflow medium, high, critical, then parts in the verdict: see tone.ts. */
  readonly tones: readonly Tone[];
  readonly background: string;
  /** Inside unfolded modules, by depth in turn. */
  readonly boxes: readonly [string, string];
  readonly boxStroke: string;
  readonly gap: string;
  readonly gapHatch: string;
  /** Lines over an error that a value near zero makes too much of. */
  readonly nearZero: string;
  /** Falls from the modules that stick to the upper edge; fades to nothing. */
  readonly shadow: string;
  readonly hover: string;
  readonly selection: string;
  /** Over what cannot be chosen. */
  readonly veil: string;
  readonly counterpart: string;
  readonly hit: string;
  /** Who may be to blame, and the way of what is wrong. */
  readonly suspect: string;
  readonly minimapBackground: string;
  /** Over what the pane does not show. */
  readonly minimapShade: string;
}

const tone = (
  [fill, stroke, text, quiet, solid]: [string, string, string, string, string],
  ticks: Tone['ticks'] = 0,
  dashed = false,
): Tone => ({ fill, stroke, text, quiet, solid, ticks, dashed });

/** All but the grades, whose colours come with the file. */
type Surroundings = Omit<Palette, 'tones'> & {
  readonly ungraded: Tone;
  readonly overflow: readonly Tone[];
  /** Not judged, clean, carries it on, suspect, undecided. */
  readonly parts: readonly Tone[];
};

const LIGHT: Surroundings = {
  ungraded: tone(['#ffffff', '#cfd5dd', '#1f2328', '#5d6673', '#dde2e8']),
  overflow: [
    tone(['#e0e8ff', '#a5b6ea', '#1f2328', '#535a67', '#b6c7fc'], 1),
    tone(['#a9baf9', '#6f87de', '#151a2b', '#383f52', '#7e96f0'], 2),
    tone(['#4668b8', '#2c4a92', '#ffffff', '#e8edfb', '#34549f'], 3),
  ],
  parts: [
    tone(['#eef0f3', '#c9d0d9', '#1f2328', '#566170', '#ccd2da']),
    tone(['#f4fbf6', '#bfdcc7', '#1f2328', '#55616d', '#cfe6d5']),
    tone(['#fde8c8', '#d9a25a', '#1f2328', '#6a5536', '#f0b45f'], 2),
    tone(['#c62828', '#8e1414', '#ffffff', '#fff0ee', '#c62828'], 4),
    tone(['#e7e3f7', '#a99bdc', '#1f2328', '#574f75', '#b9abe8'], 1),
  ],
  background: '#ffffff',
  boxes: ['#f7f8fa', '#f1f3f6'],
  boxStroke: '#d3d9e1',
  gap: '#f4f5f7',
  gapHatch: '#e3e6ea',
  nearZero: 'rgba(255, 255, 255, 0.85)',
  shadow: 'rgba(30, 40, 60, 0.16)',
  hover: 'rgba(32, 90, 200, 0.07)',
  selection: '#1a56db',
  veil: 'rgba(255, 255, 255, 0.65)',
  counterpart: '#6d9bff',
  hit: '#9333ea',
  suspect: '#b3261e',
  minimapBackground: '#f4f5f7',
  minimapShade: 'rgba(244, 245, 247, 0.3)',
};

const DARK: Surroundings = {
  ungraded: tone(['#26292e', '#444a53', '#e8eaed', '#a3abb6', '#3b4048']),
  overflow: [
    tone(['#2a3350', '#4a5a8c', '#e6ebfb', '#a9b6dc', '#43558c'], 1),
    tone(['#33478a', '#6079c9', '#f0f3ff', '#c3cff5', '#5f7be0'], 2),
    tone(['#3f5fd0', '#93aaff', '#ffffff', '#e4eaff', '#8ea6ff'], 3),
  ],
  parts: [
    tone(['#2b2f35', '#4d5560', '#e8eaed', '#a3abb6', '#4a515b']),
    tone(['#1d2a23', '#3c5a48', '#e4efe8', '#9db5a6', '#35513f']),
    tone(['#5c3f12', '#b98334', '#fff1dc', '#e6c795', '#b07a2b'], 2),
    tone(['#b92c27', '#ff9c94', '#ffffff', '#fff0ee', '#ff6b60'], 4),
    tone(['#3b3558', '#7f74b8', '#ece9fa', '#bdb5e0', '#8075c0'], 1),
  ],
  background: '#1b1d20',
  boxes: ['#202327', '#25282d'],
  boxStroke: '#3b4149',
  gap: '#1f2125',
  gapHatch: '#2d3137',
  nearZero: 'rgba(27, 29, 32, 0.75)',
  shadow: 'rgba(0, 0, 0, 0.5)',
  hover: 'rgba(140, 175, 255, 0.10)',
  selection: '#8ab0ff',
  veil: 'rgba(27, 29, 32, 0.65)',
  counterpart: '#5579c4',
  hit: '#c792ff',
  suspect: '#ff8a80',
  minimapBackground: '#222529',
  minimapShade: 'rgba(27, 29, 32, 0.3)',
};

/** What marks a grade beside its colour. */
const MARKS: Readonly<Record<number, Tone['ticks'] | undefined>> = {
  [Grade.SLIGHT]: 1,
  [Grade.MODERATE]: 2,
  [Grade.SERIOUS]: 3,
  [Grade.SEVERE]: 4,
};

/** The colours of a theme, with grades as the file has them; one it lacks looks ungraded. */
export function paletteOf(theme: Theme, grades: readonly GradeColour[]): Palette {
  const { ungraded, overflow, parts, ...rest } = theme === 'dark' ? DARK : LIGHT;
  const tones = GRADES.map((grade) => {
    const base = parseColour(grades.find((one) => one.grade === grade)?.colour ?? '');
    const isPlain = !base || base.lightness > 0.999;
    const colours = isPlain ? ungraded : theme === 'dark' ? onDark(base) : onLight(base);
    const ticks = MARKS[grade] ?? 0;
    return { ...colours, ticks, dashed: grade === Grade.UNMATCHED };
  });
  return { ...rest, tones: [...tones, ...overflow, ...parts] };
}

type Colours = Omit<Tone, 'ticks' | 'dashed'>;

function onLight(base: Oklch): Colours {
  const { lightness, chroma } = base;
  const fill = formatColour(base);
  return {
    fill,
    stroke: formatColour({ ...base, lightness: lightness - 0.13, chroma: chroma * 0.85 }),
    ...words(fill),
    // The palest has to be told from the background where it is a line of pixels.
    solid: formatColour({
      ...base,
      lightness: Math.min(0.92, lightness - 0.05),
      chroma: Math.max(chroma * 1.15, chroma + 0.025 * Math.min(1, chroma / 0.01)),
    }),
  };
}

/**
 * What is near white lies near the dark background, and what stands out there stands out here: the
 * distance from white becomes lightness, the hue stays.
 */
function onDark(base: Oklch): Colours {
  const distance = Math.hypot(1 - base.lightness, base.chroma);
  const lightness = 0.265 + 1.25 * distance;
  const chroma = base.chroma * Math.min(0.95, 0.5 + 2 * distance);
  const fill = formatColour({ ...base, lightness, chroma });
  return {
    fill,
    stroke: formatColour({ ...base, lightness: lightness + 0.17, chroma }),
    ...words(fill),
    solid: formatColour({
      ...base,
      lightness: lightness + 0.05 + 0.45 * distance,
      chroma: chroma * 1.2,
    }),
  };
}

/** Contrast that WCAG 2.2 asks of small text, with a little to spare for rounding. */
const READABLE = 4.6;
const INK = { lightness: 0.25, chroma: 0.01, hue: 4.5 };
const CHALK = { lightness: 0.98, chroma: 0.005, hue: 1.5 };

/** The colours of name and class on a fill. */
function words(fill: string): Pick<Tone, 'text' | 'quiet'> {
  const isDark = contrast('#000000', fill) >= contrast('#ffffff', fill);
  const from = isDark ? INK : CHALK;
  const readable = (lightness: number) => {
    const colour = formatColour({ ...from, lightness });
    return contrast(colour, fill) >= READABLE ? colour : null;
  };
  const plain = isDark ? '#000000' : '#ffffff';
  const text = readable(from.lightness) ?? plain;
  let quiet = text;
  // As far from the text as it can be read, but not farther than is calm.
  for (let step = 1; step <= 9; step++) {
    quiet = readable(from.lightness + (isDark ? 0.025 : -0.025) * step) ?? quiet;
  }
  return { text, quiet };
}
