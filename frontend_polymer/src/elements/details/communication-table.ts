// The calls of other ranks that a call exchanges data with, as a table.

import {
  Grade,
  Overflow,
  Side,
  type CommunicationPartner,
  type NodeDetail,
  type NodeRecord,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { NodePlace } from '../../session/finding';
import { create } from '../parts/create';
import { formatNumber } from '../parts/format';
import { gradeBars, gradeStyle, overflowStyle } from '../parts/grade-style';
import { gradeName, overflowName, translated } from '../parts/words';

const ROOTED = new Set([
  ...['broadcast', 'broadcast_object_list', 'scatter', 'scatter_object_list'],
  ...['reduce', 'gather', 'gather_object'],
]);
const BETWEEN_RANKS = /^(?:Mint)?Distributed\./;

/** What a call of the communication library does; undefined for every other node. */
export function operationOf(record: NodeRecord | undefined): string | undefined {
  return record && BETWEEN_RANKS.test(record.name) ? record.name.split('.')[1] : undefined;
}

/** Whether there is anything to say about communication. */
export function communicates({ npu, bench }: NodeDetail): boolean {
  return [npu, bench].some(
    (record) => record && (record.communication.length > 0 || operationOf(record) !== undefined),
  );
}

/** One group of rows per side; `go` is called with the place of the peer that is chosen. */
export function communicationTable(
  detail: NodeDetail,
  sides: readonly [string, string],
  text: Texts,
  go: (place: NodePlace) => void,
): HTMLTableElement {
  const table = create('table', '');
  table.append(create('caption', 'visually-hidden', text.communication.caption), head(text));
  for (const side of [Side.NPU, Side.BENCH]) {
    const record = side === Side.NPU ? detail.npu : detail.bench;
    if (!record || record.communication.length === 0) continue;
    const body = create('tbody', '');
    body.append(
      title(record, sides[side], text),
      ...record.communication.map((partner) => row(record, partner, side, text, go)),
    );
    table.append(body);
  }
  return table;
}

function head(text: Texts): HTMLTableSectionElement {
  const { role, rank, step, node, grade, data, why } = text.communication;
  const section = create('thead', '');
  const line = create('tr', '');
  for (const label of [role, rank, step, node, grade, data, why]) {
    const cell = create('th', '', label);
    cell.scope = 'col';
    line.append(cell);
  }
  section.append(line);
  return section;
}

function title(record: NodeRecord, side: string, text: Texts): HTMLTableRowElement {
  const line = create('tr', 'side');
  const peers = text.communication.count(String(record.communication.length));
  const cell = create('th', '');
  cell.scope = 'rowgroup';
  cell.colSpan = 7;
  cell.append(
    create('span', '', `${side} · `),
    create('span', 'mono', record.name),
    create('span', 'muted', ` · ${peers}`),
  );
  line.append(cell);
  return line;
}

function row(
  record: NodeRecord,
  partner: CommunicationPartner,
  side: Side,
  text: Texts,
  go: (place: NodePlace) => void,
): HTMLTableRowElement {
  const { step, rank, name } = partner;
  const line = create('tr', '');
  const role = translated<string>(text.communication.roles, partner.role, partner.role);
  const jump = create('button', 'plain mono', name);
  jump.type = 'button';
  jump.title = text.communication.goTo(name, rank);
  jump.ariaLabel = jump.title;
  jump.addEventListener('click', () => go({ step, rank, side, node: name }));
  const node = create('td', '');
  node.append(jump);
  line.append(
    create('td', '', role),
    create('td', 'number', String(rank)),
    create('td', 'number', String(step)),
    node,
    gradeCell(partner, text),
    dataCell(partner, text),
    create('td', 'muted', reason(record, partner, text)),
  );
  return line;
}

function gradeCell({ grade, error, overflow }: CommunicationPartner, text: Texts): HTMLElement {
  const cell = create('td', '');
  if (grade !== Grade.UNGRADED) {
    const chip = create('span', grade === Grade.UNMATCHED ? 'chip dashed' : 'chip');
    chip.style.cssText = gradeStyle(grade);
    const bars = create('span', 'bars');
    bars.style.cssText = gradeBars(grade);
    const name = gradeName(grade, text);
    chip.append(bars, error === undefined ? name : `${name} ${formatNumber(error)}`);
    cell.append(chip);
  }
  if (overflow !== Overflow.NONE) {
    const { name, hint } = overflowName(overflow, text);
    const chip = create('span', 'chip', `! ${name}`);
    chip.title = hint;
    chip.style.cssText = overflowStyle(overflow);
    cell.append(chip);
  }
  if (!cell.hasChildNodes()) cell.append(create('span', 'muted', '–'));
  return cell;
}

function dataCell({ dataEqual }: CommunicationPartner, text: Texts): HTMLElement {
  const { equal, equalHint, differs, differsHint, unknown, unknownHint } = text.communication;
  if (dataEqual === undefined) return hinted('muted', unknown, unknownHint);
  return dataEqual
    ? hinted('', `✓ ${equal}`, equalHint)
    : hinted('bad', `≠ ${differs}`, differsHint);
}

function hinted(className: string, content: string, hint: string): HTMLElement {
  const cell = create('td', className, content);
  cell.title = hint;
  return cell;
}

/** The rule by which the two calls belong together; see docs/design/communication.md. */
function reason(record: NodeRecord, { role }: CommunicationPartner, text: Texts): string {
  const { whyMessage, whyRoot, whyGroup } = text.communication;
  const operation = operationOf(record) ?? record.name;
  if (role === 'send_receive') return whyGroup(operation);
  return ROOTED.has(operation) ? whyRoot(operation) : whyMessage;
}
