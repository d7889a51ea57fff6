import { HATCH_SIZE, type Sheet } from './sheet';

/** A canvas that is as sharp as the screen. */
export class Surface implements Sheet {
  readonly canvas = document.createElement('canvas');
  readonly context: CanvasRenderingContext2D;
  /** In CSS pixels. */
  width = 0;
  height = 0;
  /** Device pixels per CSS pixel. */
  ratio = 1;

  constructor() {
    const context = this.canvas.getContext('2d', { alpha: false });
    if (!context) throw new Error('This browser cannot draw on a canvas.');
    this.context = context;
    Object.assign(this.canvas.style, {
      position: 'absolute',
      display: 'block',
      touchAction: 'none',
    });
    this.canvas.setAttribute('aria-hidden', 'true');
  }

  clear(colour: string): void {
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colour;
    context.fillRect(0, 0, this.width, this.height);
  }

  hatch(colour: string, shift: number): CanvasPattern {
    const { context, ratio } = this;
    const key = `${colour}@${ratio}`;
    let pattern = hatches.get(key);
    if (!pattern) {
      pattern = context.createPattern(hatchTile(colour, ratio), 'repeat')!;
      hatches.set(key, pattern);
    }
    pattern.setTransform(new DOMMatrix().translate(0, shift).scale(1 / ratio));
    return pattern;
  }

  fade(colour: string, y: number, height: number): CanvasGradient {
    const fade = this.context.createLinearGradient(0, y, 0, y + height);
    fade.addColorStop(0, colour);
    fade.addColorStop(1, 'transparent');
    return fade;
  }

  place(x: number, width: number, height: number, ratio = window.devicePixelRatio || 1): void {
    this.width = Math.max(1, Math.floor(width));
    this.height = Math.max(1, Math.floor(height));
    this.ratio = ratio;
    const { canvas } = this;
    const [wide, high] = [this.width * this.ratio, this.height * this.ratio].map(Math.round);
    // Setting the size clears the canvas, so only when it changes.
    if (canvas.width !== wide) canvas.width = wide!;
    if (canvas.height !== high) canvas.height = high!;
    Object.assign(canvas.style, {
      left: `${x}px`,
      top: '0',
      width: `${this.width}px`,
      height: `${this.height}px`,
    });
  }
}

const hatches = new Map<string, CanvasPattern>();

function hatchTile(colour: string, ratio: number): HTMLCanvasElement {
  const size = HATCH_SIZE;
  const tile = document.createElement('canvas');
  tile.width = tile.height = Math.round(size * ratio);
  const paint = tile.getContext('2d')!;
  paint.scale(tile.width / size, tile.height / size);
  paint.strokeStyle = colour;
  paint.lineWidth = 1;
  for (const shift of [-size, 0, size]) {
    paint.moveTo(shift - 1, size + 1);
    paint.lineTo(shift + size + 1, -1);
  }
  paint.stroke();
  return tile;
}
