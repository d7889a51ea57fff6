import { fromFragment, isTabInFront, notUnderstood, TAB, toFragment } from './address';
import type { Look, ViewState } from './state';

/** Scrolling is written once it rests: browsers refuse more than a few hundred changes in a while. */
const PAUSE_MS = 300;
/** Our part of the state of a history entry. */
const STATE = 'graph_ascend';

/** What an address asks for. */
export interface Asked {
  readonly view: ViewState;
  /** Parts of it that make no sense, as `key=value`. */
  readonly malformed: readonly string[];
}

/**
 * The view in the address bar and in the browser's history. Only this window's: two tabs never
 * meet.
 */
export class AddressBar {
  private readonly page = addressed();
  private timer = 0;

  /** `current` tells what is shown now, with what is unfolded and scrolled to. */
  constructor(private readonly current: () => ViewState) {}

  read(): Asked {
    const { hash } = this.page.location;
    const view = fromFragment(hash);
    const kept = keptLook(this.page.history.state, hash);
    return { view: kept ? { ...view, look: kept } : view, malformed: notUnderstood(hash) };
  }

  /**
   * Shows another view; a jump gets an entry of its own, so that the user can go back. The one
   * before keeps what rested there: by now the graph may have moved to where the jump leads.
   */
  write(view: ViewState, isJump: boolean): void {
    clearTimeout(this.timer);
    this.put(view, isJump);
  }

  /** The same view is scrolled or folded in another way: shows it as soon as it rests. */
  touch(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.put(this.current(), false), PAUSE_MS);
  }

  /** The address to send. */
  link(view = this.current()): string {
    return this.page.location.href.replace(/#.*$/, '') + toFragment(view);
  }

  /** Calls the listener when the user opens a link or goes back; returns how to stop it. */
  onChange(listener: (asked: Asked) => void): () => void {
    const changed = () => {
      clearTimeout(this.timer);
      const { hash } = this.page.location;
      // TensorBoard's own way back to this tab carries nothing.
      if (hash === TAB) this.put(this.current(), false);
      else if (hash.startsWith(`${TAB}&`)) listener(this.read());
    };
    this.page.addEventListener('hashchange', changed);
    return () => this.page.removeEventListener('hashchange', changed);
  }

  private put(view: ViewState, isJump: boolean): void {
    const { location, history } = this.page;
    if (!isTabInFront(location)) return;
    const hash = toFragment(view);
    if (location.hash === hash) return;
    const { look } = view;
    const kept = look?.openInView ? { [STATE]: { hash, look } } : {};
    const state = { ...(history.state as object | null), [STATE]: undefined, ...kept };
    const href = this.link(view);
    if (isJump) history.pushState(state, '', href);
    else history.replaceState(state, '', href);
  }
}

/** Going back restores all that was unfolded, also where it was too much for a link. */
function keptLook(state: unknown, hash: string): Look | null {
  const kept = (state as Record<string, { hash: string; look: Look } | undefined> | null)?.[STATE];
  return kept?.hash === hash ? kept.look : null;
}

/** The window whose address the user sees and sends. */
function addressed(): Window {
  try {
    return window.parent.location.href ? window.parent : window;
  } catch {
    return window; // another origin embeds us
  }
}
