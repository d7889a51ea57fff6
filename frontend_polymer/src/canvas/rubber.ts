const SVG = 'http://www.w3.org/2000/svg';

interface Point {
  readonly x: number;
  readonly y: number;
}

/** A line across both panes, from a node to the pointer. */
export class RubberLine {
  private readonly root = document.createElementNS(SVG, 'svg');
  private readonly halo = document.createElementNS(SVG, 'line');
  private readonly line = document.createElementNS(SVG, 'line');
  private readonly end = document.createElementNS(SVG, 'circle');

  constructor(host: HTMLElement) {
    Object.assign(this.root.style, {
      ...{ position: 'absolute', inset: '0', width: '100%', height: '100%' },
      ...{ pointerEvents: 'none', display: 'none' },
    });
    this.root.setAttribute('aria-hidden', 'true');
    this.halo.setAttribute('stroke-width', '6');
    this.line.setAttribute('stroke-width', '2.5');
    this.root.append(this.halo, this.line, this.end);
    host.append(this.root);
  }

  /** Dashed until it reaches something to hold on to. */
  show(from: Point, to: Point, colours: { line: string; halo: string }, holds: boolean): void {
    this.root.style.display = 'block';
    for (const line of [this.halo, this.line]) {
      const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
      for (const [name, value] of Object.entries(ends)) line.setAttribute(name, String(value));
    }
    this.halo.setAttribute('stroke', colours.halo);
    this.line.setAttribute('stroke', colours.line);
    this.line.setAttribute('stroke-dasharray', holds ? 'none' : '6 5');
    this.end.setAttribute('cx', String(to.x));
    this.end.setAttribute('cy', String(to.y));
    this.end.setAttribute('r', holds ? '6' : '4');
    this.end.setAttribute('fill', holds ? colours.line : colours.halo);
    this.end.setAttribute('stroke', colours.line);
    this.end.setAttribute('stroke-width', '2');
  }

  hide(): void {
    this.root.style.display = 'none';
  }
}
