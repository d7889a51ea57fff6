import { Direction, Kind } from '../generated/graph_pb';

/** A node's name, shortened to what its place in the hierarchy does not already say. */
export interface Label {
  /** What it is called below its parent: `self_attn.q_proj`, `linear`. */
  readonly title: string;
  /** Its class or API family: `Linear`, `Functional`; may be empty. */
  readonly type: string;
}

/**
 * Modules are dumped as `Module.{path}.{Class}`, MindSpore's as `Cell.{path}.{Class}`, and APIs as `{Family}.{operation}`. The part of the
 * path that the parent has as well is left out.
 */
export function labelOf(stem: string, parentStem: string, kind: Kind, direction: Direction): Label {
  if (direction === Direction.NONE) {
    return { title: below(stem, parentStem), type: '' };
  }
  if (kind === Kind.API) {
    const dot = stem.indexOf('.');
    if (dot <= 0 || dot === stem.length - 1) return { title: stem, type: '' };
    return { title: stem.slice(dot + 1), type: stem.slice(0, dot) };
  }
  const dot = stem.lastIndexOf('.');
  const path = modulePath(stem);
  if (path === '' || dot === stem.length - 1) return { title: stem, type: '' };
  const above = modulePath(parentStem);
  return { title: below(path, above), type: stem.slice(dot + 1) };
}

function below(path: string, above: string): string {
  if (above !== '' && path.startsWith(`${above}.`)) return path.slice(above.length + 1);
  // A module inside a call of itself: the last word is enough.
  return path === above ? path.slice(path.lastIndexOf('.') + 1) : path;
}

/** What stands before the path of a module, or of a Cell of MindSpore. */
export const OF_MODULES = /^(Module|Cell)\./i;

/** `model.layers.0` of `Module.model.layers.0.LlamaDecoderLayer`. */
function modulePath(stem: string): string {
  const first = OF_MODULES.exec(stem)?.[0].length ?? 0;
  return stem.slice(first, Math.max(first, stem.lastIndexOf('.')));
}
