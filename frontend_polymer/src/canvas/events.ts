import type { Side } from '../generated/graph_pb';
import type { NodeRef } from '../layout/hierarchy';
import type { View } from './viewport';

/** Who changed something; an element that changed it itself may ignore the event. */
export type Origin = 'pointer' | 'keyboard' | 'program';

/** Layers that stand in one row; its `node` in an event is the one to look at first. */
export interface FoldedLayers {
  /** What `toggle` and the like take for the row. */
  readonly id: number;
  readonly count: number;
  readonly name: string;
  readonly label: string;
}

/** The events of a `HierarchyView` and their details. */
export interface HierarchyEvents {
  /** Another node is selected, or none. */
  select: {
    readonly node: NodeRef | null;
    readonly layers: FoldedLayers | null;
    readonly origin: Origin;
  };
  /** The pointer is over another node, or over none; x and y are client coordinates. */
  hover: {
    readonly node: NodeRef | null;
    readonly layers: FoldedLayers | null;
    readonly x: number;
    readonly y: number;
  };
  /** A menu is asked for on a node; the browser's own is suppressed. */
  menu: {
    readonly node: NodeRef;
    readonly layers: FoldedLayers | null;
    readonly x: number;
    readonly y: number;
  };
  /** A node without match was pulled onto one of the other side, which may have one. */
  'match-drop': { readonly npu: NodeRef; readonly bench: NodeRef };
  /** A node was picked, see `setPickMode`; null when the user changed their mind. */
  pick: { readonly node: NodeRef | null };
  /** Scrolled, zoomed or resized. */
  viewchange: { readonly side: Side; readonly view: View };
  /** Something was folded or unfolded. */
  expandchange: null;
  /** The rows are new. */
  layout: { readonly rows: number };
}

export type Emit = <K extends keyof HierarchyEvents>(type: K, detail: HierarchyEvents[K]) => void;

export interface SelectOptions {
  /** Scroll the node to the middle. Without it the view moves only if the node is outside. */
  readonly centre?: boolean;
  /** Unfold what hides the node, here and around its counterpart. Default true. */
  readonly reveal?: boolean;
}

/** Tells listeners what happened. */
export class Emitter extends EventTarget {
  /** Listens to an event; the returned function ends it. */
  on<K extends keyof HierarchyEvents>(
    type: K,
    listener: (detail: HierarchyEvents[K]) => void,
  ): () => void {
    const forward = (event: Event) => listener((event as CustomEvent<HierarchyEvents[K]>).detail);
    this.addEventListener(type, forward);
    return () => this.removeEventListener(type, forward);
  }

  protected readonly emit: Emit = (type, detail) => {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  };
}
