import { isTabInFront } from './address';

/**
 * The title of the window the user sees. TensorBoard shows us in a frame, whose own title nobody
 * sees: while our tab is in front, its window says what we show, and what it said itself after that.
 */
export class WindowTitle {
  private readonly host = hostDocument();
  private place = '';
  /** What the window said before us, and what it says by us. */
  private theirs = '';
  private ours = '';

  /** TensorBoard names the tab in front in its address. */
  private readonly rename = () => {
    if (isTabInFront(this.host!.location)) this.take();
    else this.giveBack();
  };

  constructor() {
    this.host?.defaultView?.addEventListener('hashchange', this.rename);
  }

  /** What is shown, and what the viewer is called. */
  say(place: string, name: string): void {
    this.place = place;
    setTitle(document, joined(place, name));
    if (this.host) this.rename();
  }

  end(): void {
    this.host?.defaultView?.removeEventListener('hashchange', this.rename);
    this.giveBack();
  }

  private take(): void {
    if (!this.host) return;
    if (this.host.title !== this.ours) this.theirs = this.host.title;
    this.ours = joined(this.place, this.theirs);
    setTitle(this.host, this.ours);
  }

  private giveBack(): void {
    if (this.host?.title === this.ours) this.host.title = this.theirs;
    this.ours = '';
  }
}

/** Not twice: whoever watches the page would look at it anew. */
function setTitle(of: Document, title: string): void {
  if (of.title !== title) of.title = title;
}

/** As titles are read back, without spaces after each other. */
function joined(...parts: string[]): string {
  const filled = parts.filter((part) => part !== '');
  return filled.join(' – ').replace(/\s+/g, ' ').trim();
}

/** The page that shows us in a frame, where there is one that we may look at. */
export function hostDocument(): Document | null {
  if (window.parent === window) return null;
  try {
    return window.parent.document;
  } catch {
    return null; // another origin embeds us
  }
}
