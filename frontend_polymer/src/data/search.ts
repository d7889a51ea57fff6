import { Kind, type Grade, type Overflow } from '../generated/graph_pb';
import type { Graph } from './graph';
import { narrowed, type Integers } from './narrow';
import { lowerBound } from './sorted';

/** What to look for; everything that is set must hold. */
export interface Query {
  /**
   * Part of the full name, in any case; or several words, in any order, of the name and of the path
   * of the module around it; or a pattern when `isPattern`. Empty finds all.
   */
  readonly text: string;
  /** `text` is a regular expression, without regard to case. */
  readonly isPattern?: boolean;
  readonly grades?: ReadonlySet<Grade>;
  readonly overflows?: ReadonlySet<Overflow>;
  /** Places in the graph's `unmatchedReasons`. */
  readonly reasons?: ReadonlySet<number>;
  /** -1 or nothing for all. */
  readonly microStep?: number;
  /** Only nodes without children: filters by grade would otherwise name every module above. */
  readonly leavesOnly?: boolean;
}

/**
 * Finds nodes of one graph. Names repeat: a graph of 400,000 nodes has a few thousand stems and a few
 * thousand endings, so texts are looked up there and the answers put together per node.
 */
export class Search {
  private readonly stems: readonly string[];
  private readonly endings: string[] = [];
  /** What endings begin with: of long texts, few parts could be the beginning of one. */
  private readonly initials: ReadonlySet<string>;
  /** Place in `endings` of each node. */
  private readonly ending: Integers;

  constructor(private readonly graph: Graph) {
    this.stems = graph.stems.map((stem) => stem.toLowerCase());
    const ending = new Int32Array(graph.count);
    // Nearly all calls have small numbers: a table answers ten times as fast as a map.
    const table = new Int32Array(KEYS).fill(-1);
    const others = new Map<number, number>();
    for (let index = 0; index < graph.count; index++) {
      const key = (graph.call[index]! * 4 + graph.direction[index]!) * 4 + graph.kind[index]!;
      let place = key < KEYS ? table[key]! : (others.get(key) ?? -1);
      if (place < 0) {
        place = this.endings.push(graph.suffix(index)) - 1;
        if (key < KEYS) table[key] = place;
        else others.set(key, place);
      }
      ending[index] = place;
    }
    this.ending = narrowed(ending);
    this.initials = new Set(this.endings.map((name) => name.charAt(0)));
  }

  /** The nodes that match, in execution order. Throws a SyntaxError for an invalid pattern. */
  find(query: Query): Int32Array {
    const { graph } = this;
    const {
      text,
      isPattern,
      grades,
      overflows,
      reasons,
      microStep = -1,
      leavesOnly = false,
    } = query;
    const isPlain = isPattern !== true && text !== '';
    const named = isPlain ? this.named(text.toLowerCase()) : null;
    if (named && !grades && !overflows && !reasons && microStep < 0 && !leavesOnly) return named;
    const hasName = isPattern === true && text !== '' ? this.patternTest(text) : () => true;
    const hits = new Int32Array(named?.length ?? graph.count);
    let count = 0;
    for (let at = 0; at < hits.length; at++) {
      const index = named ? named[at]! : at;
      if (leavesOnly && graph.hasChildren(index)) continue;
      if (microStep >= 0 && graph.microStep[index] !== microStep) continue;
      if (grades && !grades.has(graph.gradeOf(index))) continue;
      if (overflows && !overflows.has(graph.overflowOf(index))) continue;
      if (reasons && !reasons.has(graph.unmatchedReason[index]!)) continue;
      if (hasName(index)) hits[count++] = index;
    }
    return hits.slice(0, count);
  }

  private patternTest(text: string): (index: number) => boolean {
    const pattern = new RegExp(text, 'i');
    const literal = requiredText(text).toLowerCase();
    if (literal === '') return (index) => pattern.test(this.graph.name(index));
    const [ofStem, ofEnding] = this.bits(literal);
    const { stem } = this.graph;
    return (index) =>
      (ofStem[stem[index]!]! & ofEnding[this.ending[index]!]!) !== 0 &&
      pattern.test(this.graph.name(index));
  }

  /** One word is part of a name; of several each is part of it or of the module's around it. */
  private named(text: string): Int32Array {
    const words = text.split(/\s+/).filter((word) => word !== '');
    const isOne = words.length < 2 || text.trim() !== text;
    return isOne ? this.containing(text) : this.containingAll(words);
  }

  /**
   * The nodes whose names have at least one of the words, and the names of the modules around them
   * the others, in any order.
   */
  private containingAll(words: readonly string[]): Int32Array {
    const { stem, count } = this.graph;
    const { ending, stems } = this;
    const around = this.stemsAround();
    const held = words.map((word) => ({
      bits: this.bits(word, true),
      ofModule: stems.map((name) => isIn(name, word, true)),
    }));
    const hits = new Int32Array(count);
    let found = 0;
    for (let index = 0; index < count; index++) {
      const module = around[index]!;
      let own = 0;
      const isHit = held.every(({ bits: [ofStem, ofEnding], ofModule }) => {
        const isHere = (ofStem[stem[index]!]! & ofEnding[ending[index]!]!) !== 0;
        if (isHere) own++;
        return isHere || (module >= 0 && ofModule[module]!);
      });
      if (isHit && own > 0) hits[found++] = index;
    }
    return hits.slice(0, found);
  }

  /** Of each node the stem of the module that it lies in, or -1. */
  private stemsAround(): Int32Array {
    const { parent, stem, kind, count } = this.graph;
    const around = new Int32Array(count).fill(-1);
    for (let index = 1; index < count; index++) {
      const above = parent[index]!;
      around[index] = kind[above] === Kind.MODULE ? stem[above]! : around[above]!;
    }
    return around;
  }

  /** The nodes whose names contain a text: a loop that calls nothing, over a million nodes. */
  private containing(text: string): Int32Array {
    const [ofStem, ofEnding] = this.bits(text);
    const { stem, count } = this.graph;
    const { ending } = this;
    const hits = new Int32Array(count);
    let found = 0;
    for (let index = 0; index < count; index++) {
      if ((ofStem[stem[index]!]! & ofEnding[ending[index]!]!) !== 0) hits[found++] = index;
    }
    return hits.slice(0, found);
  }

  /**
   * Whether a text lies in the stem, in the ending, or across the border between them: one bit for
   * each way, and a name has the text if its stem and its ending have a bit in common.
   */
  private bits(text: string, isWhole = false): readonly [Int32Array, Int32Array] {
    const ofStem = holding(this.stems, text, IN_STEM, IN_ENDING, isWhole);
    const ofEnding = holding(this.endings, text, IN_ENDING, IN_STEM, isWhole);
    let bit = 1;
    for (let cut = 1; cut < text.length; cut++) {
      if (!this.initials.has(text.charAt(cut))) continue;
      const [head, tail] = [text.slice(0, cut), text.slice(cut)];
      // Endings are short, so only a few of the tails can be their beginning.
      if (!this.endings.some((name) => name.startsWith(tail))) continue;
      this.stems.forEach((name, place) => (ofStem[place]! |= flag(name.endsWith(head), bit)));
      const begins = (name: string) =>
        name.startsWith(tail) && !(isWhole && isCutNumber(tail, name, 0));
      this.endings.forEach((name, place) => (ofEnding[place]! |= flag(begins(name), bit)));
      bit <<= 1;
    }
    return [ofStem, ofEnding];
  }
}

/** Endings of calls up to 65,535. */
const KEYS = 16 * 2 ** 16;

/** Bits of `bits` beyond those of the cuts: an ending has at most 21 characters. */
const IN_STEM = 1 << 30;
const IN_ENDING = 1 << 29;

/** For each name, `other`, and `own` where it holds the text; `Int32Array.from` is far slower. */
function holding(
  names: readonly string[],
  text: string,
  own: number,
  other: number,
  isWhole: boolean,
): Int32Array {
  const bits = new Int32Array(names.length).fill(other);
  for (let place = 0; place < names.length; place++) {
    if (isIn(names[place]!, text, isWhole)) bits[place] = own | other;
  }
  return bits;
}

/** Whether a name holds a text; `layers.1` is not in `layers.10` where numbers are to be whole. */
function isIn(name: string, text: string, isWhole: boolean): boolean {
  if (!isWhole) return name.includes(text);
  for (let at = name.indexOf(text); at >= 0; at = name.indexOf(text, at + 1)) {
    if (!isCutNumber(text, name, at)) return true;
  }
  return false;
}

/** Whether the number that a text ends with goes on in the name that has it at a place. */
function isCutNumber(text: string, name: string, at: number): boolean {
  return /\d$/.test(text) && /\d/.test(name.charAt(at + text.length));
}

function flag(isSet: boolean, bit: number): number {
  return isSet ? bit : 0;
}

const searches = new WeakMap<Graph, Search>();

/** The nodes that a text names, see `Query`, in execution order. */
export function searchNames(graph: Graph, text: string, microStep = -1): Int32Array {
  let search = searches.get(graph);
  if (!search) searches.set(graph, (search = new Search(graph)));
  return search.find({ text, microStep });
}

/**
 * A text that every match of a pattern must hold, to spare most names the pattern; empty when none
 * is certain. Only plain patterns are read: literal runs between dots, classes and quantifiers.
 */
export function requiredText(pattern: string): string {
  if (/[|()\\{}]|[^ -~]/.test(pattern)) return '';
  let longest = '';
  // A quantifier that allows zero makes the character before it optional.
  for (const run of pattern.replace(/[^+*?][*?]/g, '.').split(/\[[^\]]*\]?|[.^$+*?]+/)) {
    if (run.length > longest.length) longest = run;
  }
  return longest;
}

/** Place in `hits` of the first hit after a node, from the start again behind the last. */
export function nextHit(hits: Int32Array, current: number): number {
  const place = lowerBound(hits, current + 1);
  return place === hits.length ? 0 : place;
}

/** Place in `hits` of the last hit before a node, from the end again before the first. */
export function previousHit(hits: Int32Array, current: number): number {
  const place = lowerBound(hits, current) - 1;
  return place < 0 ? hits.length - 1 : place;
}
