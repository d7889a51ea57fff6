import wordings from '../../../../msprobe_builder/facts/catalogue/zh.json';
import type { Texts } from '../en';
import { factsOf } from '../../data/facts';
import { word } from '../wording';

export const verdictZh: Texts['verdict'] = {
  title: '结论',
  conclusions: { fault: '发现故障', clean: '未发现故障', undecided: '无法确定' },
  none: '该文件没有结论：构建时未生成，或没有可供判断的内容。',
  tell: (said) => word(factsOf(said), wordings),
  told: (facts) => word(facts, wordings),
  word: (said) => word(said, wordings),
  before: (name) => `${name} 之前`,
  more: (count) => `另有 ${count} 个；按 v 逐一查看`,
  older: (changed) =>
    `此后有 ${changed} 个匹配被更改：请导出匹配并用 --match-file 重新构建，使结论包含它们。`,
  record: (size) => (size ? `下一步采集：每次运行约 ${size}` : '下一步采集'),
  recordHow:
    '请存为 config.json，在两次运行中都交给采集器 PrecisionDebugger(config_path="config.json", dump_path=…)，各用自己的目录；然后重新构建。',
  copyConfig: '复制配置',
  others: '其他嫌疑',
  what: '差异',
  sure: '把握',
  follows: '影响',
  next: '下一步',
  limits: '未判断及无法察觉的范围：',
  argument: (name) => `参数 ${name}`,
  strong: '证据充分',
  certainly: (by) => `${by}。`,
  likely: (percent, by) => `此处为故障位置的可能性为 ${percent} %：${by}。`,
  rival: (name, by) => `其次是 ${name}（${by}）`,
  onRanks: (step, ranks) => `step ${step} 的 rank ${ranks}`,
  wrongIn: (places, more) => `出现于 ${places}${more > 0 ? `，以及之后 ${more} 个 step` : ''}。`,
  followsIn: (count) => `另有 ${count} 个图由此引起。`,
  card: '完整结论',
  weak: '证据不足',
  first: '在图中查看',
  check: '算子本身是否有误？',
  copyCheck: '复制命令',
  suspect: '嫌疑',
  nextSuspect: '下一个嫌疑节点',
  previousSuspect: '上一个嫌疑节点',
  nextError: '下一个误差',
  previousError: '上一个误差',
  noSuspect: '结论没有指认任何节点。',
  little: (share) => `仅比对了 ${share}。请用层映射（-lm）重新构建，或手动匹配。`,
  noError: '该图中没有有误差的调用。',
};
