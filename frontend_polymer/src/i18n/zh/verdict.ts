import wordings from '../../../../msprobe_builder/facts/catalogue/zh.json';
import type { Texts } from '../en';
import { factsOf } from '../../data/facts';
import { word } from '../wording';

export const verdictZh: Texts['verdict'] = {
  title: '结论',
  conclusions: { fault: '发现故障', clean: '未发现故障', undecided: '无法确定' },
  none: '该文件没有结论：构建时未生成，或没有可供判断的内容。',
  tell: (said) => word(factsOf(said), wordings),
  word: (said) => word(said, wordings),
  before: (name) => `${name} 之前`,
  more: (count) => `另有 ${count} 个；按 v 逐一查看`,
  older: (changed) =>
    `此后有 ${changed} 个匹配被更改：请导出匹配并用 --match-file 重新构建，使结论包含它们。`,
  colours: '颜色表示普通的相对误差，仅舍入就可能使其很大；选择“超出舍入”可查看其余部分。',
  record: (size) => (size ? `下一步采集：每次运行约 ${size}` : '下一步采集'),
  recordHow:
    '请存为 config.json，在两次运行中都交给采集器 PrecisionDebugger(config_path="config.json", dump_path=…)，各用自己的目录；然后重新构建。',
  copyConfig: '复制配置',
  weak: '弱',
  first: '转到首个嫌疑节点',
  check: '算子本身是否有误？',
  copyCheck: '复制命令',
  suspect: '嫌疑',
  nextSuspect: '下一个嫌疑节点',
  previousSuspect: '上一个嫌疑节点',
  nextError: '下一个误差',
  previousError: '上一个误差',
  noSuspect: '结论没有指认任何节点。',
  little: (share) => `仅比对了 ${share}。请用模糊匹配（-f）或层映射（-lm）重新构建，或手动匹配。`,
  noError: '该图中没有有误差的调用。',
};
