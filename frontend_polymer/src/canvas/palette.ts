export type Theme = 'light' | 'dark';

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
  /** Indexed by grade, then overflow medium, high, critical: see tone.ts. */
  readonly tones: readonly Tone[];
  readonly background: string;
  /** Inside unfolded modules, by depth in turn. */
  readonly boxes: readonly [string, string];
  readonly boxStroke: string;
  readonly gap: string;
  readonly gapHatch: string;
  /** Falls from the modules that stick to the upper edge; fades to nothing. */
  readonly shadow: string;
  readonly hover: string;
  readonly selection: string;
  /** Over what cannot be chosen. */
  readonly veil: string;
  readonly counterpart: string;
  readonly hit: string;
  readonly minimapBackground: string;
  /** Over what the pane does not show. */
  readonly minimapShade: string;
}

const tone = (
  [fill, stroke, text, quiet, solid]: [string, string, string, string, string],
  ticks: Tone['ticks'] = 0,
  dashed = false,
): Tone => ({ fill, stroke, text, quiet, solid, ticks, dashed });

const LIGHT: Palette = {
  tones: [
    tone(['#ffffff', '#cfd5dd', '#1f2328', '#5d6673', '#dde2e8']),
    tone(['#fffcf3', '#dcd6c4', '#1f2328', '#5f6570', '#ebe3c9']),
    tone(['#ffedbe', '#e0c687', '#1f2328', '#595f69', '#ffe08f'], 1),
    tone(['#ffdc7f', '#d6ab3c', '#1f2328', '#50555e', '#ffd05c'], 2),
    tone(['#ffc62e', '#c6920a', '#1f2328', '#464a51', '#ffb000'], 3),
    tone(['#ff704d', '#c7401e', '#1c0a05', '#33150c', '#f04a21'], 4),
    tone(['#c7c7c7', '#7d838c', '#1f2328', '#454a52', '#a9aeb5'], 0, true),
    tone(['#e0e8ff', '#a5b6ea', '#1f2328', '#535a67', '#b6c7fc'], 1),
    tone(['#a9baf9', '#6f87de', '#151a2b', '#383f52', '#7e96f0'], 2),
    tone(['#4668b8', '#2c4a92', '#ffffff', '#e8edfb', '#34549f'], 3),
  ],
  background: '#ffffff',
  boxes: ['#f7f8fa', '#f1f3f6'],
  boxStroke: '#d3d9e1',
  gap: '#f4f5f7',
  gapHatch: '#e3e6ea',
  shadow: 'rgba(30, 40, 60, 0.16)',
  hover: 'rgba(32, 90, 200, 0.07)',
  selection: '#1a56db',
  veil: 'rgba(255, 255, 255, 0.65)',
  counterpart: '#6d9bff',
  hit: '#9333ea',
  minimapBackground: '#f4f5f7',
  minimapShade: 'rgba(244, 245, 247, 0.3)',
};

const DARK: Palette = {
  tones: [
    tone(['#26292e', '#444a53', '#e8eaed', '#a3abb6', '#3b4048']),
    tone(['#2b2b29', '#4a4a44', '#e8eaed', '#a9adae', '#45453e']),
    tone(['#41391f', '#6d6033', '#f3efe2', '#bdb398', '#6f5f2a'], 1),
    tone(['#5c4812', '#8d7127', '#fbf3dc', '#d3c190', '#9c7a17'], 2),
    tone(['#7d5600', '#b78417', '#fff6e0', '#f2dcae', '#d29500'], 3),
    tone(['#b93a1b', '#f0765a', '#ffffff', '#ffe3da', '#ff6a45'], 4),
    tone(['#44484e', '#8b929c', '#f0f1f3', '#c3c8cf', '#6a7078'], 0, true),
    tone(['#2a3350', '#4a5a8c', '#e6ebfb', '#a9b6dc', '#43558c'], 1),
    tone(['#33478a', '#6079c9', '#f0f3ff', '#c3cff5', '#5f7be0'], 2),
    tone(['#3f5fd0', '#93aaff', '#ffffff', '#e4eaff', '#8ea6ff'], 3),
  ],
  background: '#1b1d20',
  boxes: ['#202327', '#25282d'],
  boxStroke: '#3b4149',
  gap: '#1f2125',
  gapHatch: '#2d3137',
  shadow: 'rgba(0, 0, 0, 0.5)',
  hover: 'rgba(140, 175, 255, 0.10)',
  selection: '#8ab0ff',
  veil: 'rgba(27, 29, 32, 0.65)',
  counterpart: '#5579c4',
  hit: '#c792ff',
  minimapBackground: '#222529',
  minimapShade: 'rgba(27, 29, 32, 0.3)',
};

export function paletteOf(theme: Theme): Palette {
  return theme === 'dark' ? DARK : LIGHT;
}
