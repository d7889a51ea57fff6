// What of a call stack is worth reading, and how it is written down.

import type { StackFrame } from '../generated/graph_pb';

/** One frame the way Python's traceback writes it. */
export function frameText(frame: StackFrame): string {
  if (!frame.file) return frame.source;
  const head = `File "${frame.file}", line ${frame.line}, in ${frame.function}`;
  return frame.source ? `${head}\n  ${frame.source.trim()}` : head;
}

export function stackText(frames: readonly StackFrame[]): string {
  return frames.map(frameText).join('\n');
}

/** `modeling_llama.py:193` */
export function placeText({ file, line }: StackFrame): string {
  return file ? `${file.slice(file.search(/[^/\\]*$/))}:${line}` : '';
}

/** Opens the file in VS Code; only a whole path means anything there. */
export function editorLink({ file, line }: StackFrame): string {
  if (!/^(\/|[A-Za-z]:[\\/])/.test(file)) return '';
  const path = file.replaceAll('\\', '/').split('/').map(encodeURIComponent).join('/');
  return `vscode://file/${path.replace(/^\//, '').replace('%3A', ':')}:${line}`;
}

const PYTHON = 'python';

/** A path without what stands before the package, as some collectors write it. */
const BARE_FRAMEWORK = /^(torch|torch_npu|mindspore|msprobe|msprobe_collector)\//;

/** The installed package that a frame belongs to; empty for the user's own code. */
export function packageOf({ file, isLibrary }: StackFrame): string {
  const path = file.replaceAll('\\', '/');
  const bare = BARE_FRAMEWORK.exec(path)?.[1];
  if (bare !== undefined) return bare;
  if (!isLibrary) return '';
  const inside = /(?:^|\/)(?:site|dist)-packages\/([^/]+)/.exec(path)?.[1];
  return inside?.replace(/\.py$/, '') ?? PYTHON;
}

/** What calls everything, and says nothing about the model. */
const MACHINERY = new Set([
  ...[PYTHON, 'torch', 'torch_npu', 'mindspore', 'msprobe', 'mindstudio_probe'],
  ...['msprobe_collector', 'torchgen', 'functorch', 'decorator', 'wrapt'],
]);

/** Place of the innermost frame outside the framework and the collector; -1 for none. */
export function callSite(frames: readonly StackFrame[]): number {
  return frames.findIndex((frame) => frame.file !== '' && !MACHINERY.has(packageOf(frame)));
}

/** Neighbouring frames that are shown or folded together. */
export interface StackSection {
  /** Empty for the user's own code. */
  readonly package: string;
  readonly frames: readonly StackFrame[];
  /** Whether the line that matters is in it. */
  readonly isCallSite: boolean;
  /** Whether it is worth reading by itself. */
  readonly isOpen: boolean;
}

/** A stack by package. The call site and the user's own code stand open; so does a lone section. */
export function stackSections(frames: readonly StackFrame[]): StackSection[] {
  const site = callSite(frames);
  const sections: { package: string; frames: StackFrame[]; isCallSite: boolean }[] = [];
  for (const [at, frame] of frames.entries()) {
    const name = packageOf(frame);
    const last = sections.at(-1);
    const isCallSite = at === site;
    if (last?.package === name && !isCallSite && !last.isCallSite) last.frames.push(frame);
    else sections.push({ package: name, frames: [frame], isCallSite });
  }
  const isLone = sections.length === 1;
  return sections.map((section) => ({
    ...section,
    isOpen: section.isCallSite || section.package === '' || isLone,
  }));
}
