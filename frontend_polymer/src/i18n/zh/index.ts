import type { Texts } from '../en';
import { configurationZh } from './configuration';
import { detailsZh } from './details';
import { findZh } from './find';
import { flowZh } from './flow';
import { matchZh } from './match';
import { noticesZh } from './notices';
import { overviewZh } from './overview';
import { shellZh } from './shell';
import { tensorsZh } from './tensors';
import { trendZh } from './trend';
import { verdictZh } from './verdict';

const REBUILD = '请用 msprobe-build 重新构图。';

export const zh: Texts = {
  language: { code: 'zh', tag: 'zh-CN', name: '中文', short: '中文' },

  title: '模型层级结构',
  toolbar: {
    file: '文件',
    step: 'Step',
    rank: 'Rank',
    microStep: 'MicroStep',
    allMicroSteps: '全部',
    refresh: '查找新文件并重新加载',
    language: '语言',
    theme: '主题',
    overview: '总览',
    overviewHint: '该文件的全部 step 和 rank (o)',
    help: '快捷键与手势',
  },
  themes: { auto: '跟随 TensorBoard', light: '浅色', dark: '深色' },

  roles: { debug: '调试侧', reference: '标杆侧', model: '模型' },
  sides: { debug: '{debug}', reference: '{reference}', model: '{debug}' },
  shortSides: { debug: '{debug}', reference: '{reference}' },
  header: {
    noGraph: '该 step 和 rank 只存在于一侧。',
  },
  tasks: {
    statistics: '统计信息',
    tensor: '真实数据',
    md5: 'md5',
    structure: '仅结构',
  },

  view: {
    expandAll: '全部展开',
    collapseAll: '全部折叠',
    expandBelow: '展开其下全部',
    level: '层级',
    toLevel: (level) => `展开到第 ${level} 层`,
    pathToErrors: '定位误差',
    pathToErrorsHint: '只展开通往误差最大节点的路径',
    fit: '缩放至显示整图 (f)',
    zoomIn: '放大 (+)',
    zoomOut: '缩小 (−)',
    zoomReset: '阅读大小 (0)',
    sync: '同步联动',
    syncHint: '两侧同时展开、选中和滚动',
    inside: (count, grade) => `内含 ${count} 个${grade}`,
    outlineLabel: (side) => `层级结构，${side}`,
    splitter: '两侧宽度',
    unified: '合为一树',
    unifiedHint: '两侧合在一棵树中，并排列出各节点的输出 (i)',
    onlyDebug: '仅 {debug} 有',
    onlyReference: '仅 {reference} 有',
    elsewhere: '对应节点在别处',
    values: '输出的 L2 范数',
    valuesHint: '两侧各节点第一个有范数的输出的 L2 范数',
  },

  legend: {
    label: '精度等级',
    stepThrough: (grade, count) =>
      `${grade}：${count} 个节点。单击跳到下一个，Shift + 单击跳到上一个。`,
    none: (grade) => `${grade}：没有节点`,
    position: (position, total) => `第 ${position} 个，共 ${total} 个`,
    total: (count) => `共 ${count} 个节点`,
    overflow: '溢出',
  },
  grades: {
    ungraded: '未评级',
    ok: '正常',
    slight: '轻微',
    moderate: '中等',
    serious: '较重',
    severe: '严重',
    unmatched: '未匹配',
  },
  /** What part a node plays in the verdict. */
  parts: {
    suspect: '嫌疑',
    carrier: '传递误差',
    clean: '正常',
    unjudged: '未判断',
  },
  /** What the verdict says of a step and rank. */
  outcomes: {
    fault: '故障',
    follows: '由他处引起',
    undecided: '无法确定',
    clean: '正常',
    unjudged: '未判断',
  },
  overflow: { medium: '中', high: '高', critical: '严重' },
  overflowHints: {
    medium: '输入异常，输出正常',
    high: '输入异常，输出异常；或输出 norm 相较输入异常增大',
    critical: '输入正常，输出异常',
  },

  colours: {
    label: '颜色的含义',
    next: '切换着色方式',
    powers: '小误差以 10 的幂显示',
    by: {
      role: '按在结论中的角色着色',
      precision: '按文档定义的误差着色',
      beyond: '按超出舍入的误差着色',
      scaled: '按相对张量大小的误差着色',
      overflow: '按溢出而非误差着色',
    },
    short: {
      role: '结论',
      precision: '文档定义',
      beyond: '超出舍入',
      scaled: '相对张量',
      overflow: '溢出',
    },
    meaning: {
      role: '颜色：谁可能有问题、谁传递误差、哪些正常、哪些无法判断。数字：输出偏差占其张量的比例。',
      precision: '误差：输出相对标杆偏离的程度，0 到 1，按文档定义。',
      beyond: '误差：输出的偏差是单次舍入影响的多少倍（×）；属于舍入的保持浅色。',
      scaled: '误差：输出偏差占其张量的比例：最值相对最大元素，均值与范数相对典型大小。',
      overflow: '溢出：NaN、无穷或异常增长在何处进入与传出。',
    },
    nearZero: '接近零',
    nearZeroHint: '不到张量的 5 %：数值几乎为零，所以相对误差很大',
    hidden: '此前已错',
    hiddenHint: '输出偏差达张量的 5 % 以上，但误差不计在该节点',
  },

  search: {
    label: '按名称、模块或代码行搜索',
    placeholder: '搜索节点（ / ）',
    hint: '名称与模块中的词，顺序不限，如 layers.1 softmax；或代码行，如 model.py:193',
    side: '搜索哪一侧',
    next: '下一个（Enter、n）',
    previous: '上一个（Shift+Enter、p）',
    none: '无匹配',
    count: (count) => `${count} 个结果`,
    position: (position, total) => `${position} / ${total}`,
  },

  details: {
    label: '所选节点的详细信息',
    nothing: '未选中节点',
    empty: '选择一个节点，查看它的张量、误差和调用位置。',
    emptyKeys: '双击展开模块；按 / 搜索，按 ? 查看全部快捷键。',
    outdated: '加载图之后文件已变化，无法显示该节点的内容。',
    firstError: '跳到首个误差节点',
    copyName: '复制完整名称',
    copied: '已复制',
    copyFailed: '复制失败：浏览器不允许在此处复制',
    microStep: (step) => `MicroStep ${step}`,
    recompute: '重计算',
    error: '误差',
    matched: '已匹配',
    matchedWith: '匹配节点',
    goToPartner: '跳到匹配节点',
    candidate: '最接近的候选',
    goToCandidate: '跳到最接近的候选节点',
    tensors: '张量',
    stack: '调用栈',
    dock: '详细信息置于图的右侧或下方',
    resize: '详细信息的大小',
    collapse: '收起详细信息',
    expand: '展开详细信息',
    failed: '节点加载失败。',
    retry: '重试',
  },
  kinds: { module: '模块', api: 'API', collection: '模块间的 API' },
  matchSources: {
    exact: '名称一致',
    fuzzy: '模糊匹配',
    mapping: '层映射',
    manual: '手动匹配',
    file: '匹配文件',
    automatic: '自动识别',
  },

  stack: {
    none: 'dump 中没有该节点的调用栈。',
    copy: '复制调用栈',
    showLibrary: (count) => `显示 ${count} 个库函数栈帧`,
    hideLibrary: (count) => `隐藏 ${count} 个库函数栈帧`,
    missing: '该侧没有对应节点。',
    folded: (name, count) => `${name === 'python' ? 'Python' : name} · ${count} 帧`,
    copyPlace: '复制路径与行号',
    editor: '用 VS Code 打开',
    editorHint: '打开您自己机器上该路径的文件',
    calledFrom: '调用处',
    calledFromHint: '框架与采集工具之外最内层的代码行。点击查看调用栈。',
  },

  reasons: {
    no_such_name: '另一侧没有同名节点',
    other_parent: '名称相同，但父节点不同',
    other_parameter_count: '参数数量不一致',
    other_type: '参数类型不一致',
    other_shape: '参数形状不一致',
    partner_taken: '唯一的候选节点已与其他节点匹配',
    parent_unmatched: '所在的模块没有对应节点',
    extra_call: '另一侧在此处的调用次数更少',
    other_order: '另一侧在其他位置进行此调用',
    other_class: '该位置是另一种类的模块',
    calls_unmatched: '其中的调用都没有对应节点',
    by_hand: '已手动取消匹配',
    rejected: '已手动否决',
    grouped: '属于一组共同完成计算的调用',
  },

  ...detailsZh,
  ...tensorsZh,
  find: findZh,
  flow: flowZh,
  match: matchZh,
  overview: overviewZh,
  shell: shellZh,
  trend: trendZh,
  notices: noticesZh,
  verdict: verdictZh,
  configuration: configurationZh,

  progress: {
    catalog: '正在查找数据库…',
    graph: '正在加载图…',
  },

  empty: {
    title: '还没有可显示的比对结果',
    searched: '以下目录中没有以 .vis.db 结尾的文件：',
    build: '请先用两份 dump 数据构图，然后重新查找：',
    config: 'compare.json 指定两份 dump 的目录：',
    refresh: '重新查找',
    copy: '复制',
  },
  problem: {
    title: '无法显示',
    retry: '重试',
  },
  problems: {
    empty_file: (file) => ({ message: `${file} 是空文件。`, remedy: REBUILD }),
    no_permission: (file) => ({
      message: `运行 TensorBoard 的用户无权读取 ${file}。`,
      remedy: `请授予权限：chmod a+r ${file}`,
    }),
    not_a_database: (file) => ({ message: `${file} 不是 SQLite 数据库。`, remedy: REBUILD }),
    truncated: (file) => ({
      message: `${file} 不完整：末尾缺失。`,
      remedy: `请重新复制该文件，或${REBUILD.slice(1)}`,
    }),
    newer_schema: (file) => ({
      message: `${file} 的格式版本比当前插件更新。`,
      remedy: '请在 TensorBoard 所在环境中升级 msprobe-graph。',
    }),
    damaged: (file) => ({ message: `${file} 已损坏。`, remedy: REBUILD }),
    unfinished: (file) => ({
      message: `${file} 有尚未写入文件本身的改动。`,
      remedy: '请关闭正在写入它的程序，或执行：PRAGMA journal_mode = DELETE',
    }),
    reference_format: (file) => ({
      message: `${file} 由其他构图工具生成，表结构不同。`,
      remedy: '请导入该文件，或用相同的 dump 数据通过 msprobe-build 重新构图。',
    }),
    already_converted: (file) => ({
      message: `${file} 已经导入过。`,
      remedy: '请在文件列表中选择导入后的文件。',
    }),
    foreign_database: (file) => ({
      message: `${file} 是 SQLite 数据库，但不是 msprobe-build 的结果。`,
      remedy: '请将它移出日志目录，或改用其他后缀。',
    }),
    locked: (file) => ({ message: `${file} 正被其他程序写入。`, remedy: '请稍后重试。' }),
    too_slow: (file) => ({
      message: `读取 ${file} 超时。`,
      remedy: '请重试，或将文件复制到更快的磁盘。',
    }),
    changed: (file) => ({ message: `读取期间 ${file} 被替换。`, remedy: '请重新加载。' }),
    unknown_file: (file) => ({
      message: `日志目录下没有文件 ${file}。`,
      remedy: '请刷新文件列表后重新选择。',
    }),
    unknown_graph: (file) => ({
      message: `${file} 中没有该 step 和 rank 的图。`,
      remedy: '请选择列表中的 step 和 rank。',
    }),
    unknown_node: (file) => ({ message: `${file} 中没有该节点。`, remedy: '请重新加载图。' }),
    'no-answer': () => ({
      message: 'TensorBoard 没有响应。',
      remedy: '请确认它仍在运行且网络连接正常，然后重试。',
    }),
    'http-error': () => ({
      message: '服务器返回了错误。',
      remedy: '请确认 TensorBoard 仍在运行，然后刷新页面。',
    }),
    'damaged-answer': () => ({
      message: '服务器返回的数据已损坏。',
      remedy: '请刷新页面；如仍出现，请重新构图。',
    }),
  },

  notes: {
    label: (count) => `构图时的 ${count} 条提示`,
    title: '构图时的提示',
    about: '关于该文件',
    task: '比对方式',
    recorded: '采集内容',
    builtAt: '构图时间',
  },

  help: {
    title: '快捷键与手势',
    close: '关闭',
    groups: {
      move: '移动',
      open: '展开与折叠',
      find: '查找',
      fault: '追踪错误',
      view: '视图',
      match: '手动匹配',
      other: '其他',
    },
    doubleClick: '双击',
    click: '单击',
    drag: '拖动',
    wheel: '滚轮',
    ctrlWheel: 'Ctrl + 滚轮、双指缩放',
    selectNode: '选中节点',
    toggle: '展开或折叠模块',
    pan: '移动视图',
    zoom: '以指针为中心缩放',
    zoomKeys: '放大、缩小',
    fit: '显示整图',
    readingSize: '阅读大小',
    walk: '在节点间移动；← 折叠或回到父节点，→ 展开',
    ends: '第一个和最后一个可见节点',
    cross: '另一侧的匹配节点',
    search: '搜索',
    close2: '关闭对话框、离开搜索框',
    help: '本列表',
    overview: '全部 step 和 rank 的总览，再按返回',
  },
};
