/** A canvas that is as sharp as the screen. */
export class Surface {
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

  /** Begins a frame: from here on, units are CSS pixels. */
  clear(colour: string): CanvasRenderingContext2D {
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colour;
    context.fillRect(0, 0, this.width, this.height);
    return context;
  }

  place(x: number, width: number, height: number): void {
    this.width = Math.max(1, Math.floor(width));
    this.height = Math.max(1, Math.floor(height));
    this.ratio = window.devicePixelRatio || 1;
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
