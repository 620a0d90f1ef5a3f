// A form as a submission, as a script with #LATTICE lines, and back.
import { duration, shell } from "./format.js";

export const BLANK = {
  name: "", script: "#!/bin/bash\n", nodes: "1", walltime: "", cpus: "", memory: "", gpus: "", tasks: "", vcluster: "", project: "",
  cwd: "", tags: "", environment: "", dependsOn: "", priority: "normal", uenv: "", image: "", features: "", hold: false, exclusive: false, scriptArgs: [],
};

export const TEMPLATES = {
  "One command": { name: "hello", script: "#!/bin/bash\necho \"hello from $(hostname)\"\n", walltime: "10m" },
  "MPI on several nodes": { name: "mpi", script: "#!/bin/bash\nlattice launch --tasks-per-node 4 -- ./program\n", nodes: "4", walltime: "2h", exclusive: true },
  "Training with GPUs": { name: "train", script: "#!/bin/bash\npython train.py --epochs 10\n", gpus: "4", walltime: "12h" },
  "Many alike tasks": { name: "sweep", script: "#!/bin/bash\n./simulate --seed \"$LATTICE_TASK_INDEX\"\n", tasks: "0-99%20", walltime: "30m" },
};

const number = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim());
// One in a line. A value of several lines stands in quotes, with \n for each end of a line, and so does one that has quotes of its own.
const pairs = (text) => text.split("\n").filter((line) => line.trim()).map((line) => {
  const place = line.indexOf("=");
  return place < 0 ? [line.trim(), ""] : [line.slice(0, place).trim(), unquoted(line.slice(place + 1))];
});
const lines = (fields) => Object.entries(fields).map(([key, value]) => `${key}=${/[\n\r]|^\s*"/.test(value) ? JSON.stringify(value) : value}`).join("\n");

function unquoted(text) {
  if (!/^".*"\s*$/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// "4", "2-8"; anything else goes to the server as it is, which says what is wrong with it.
function nodeRange(text) {
  const [, least, most] = /^\s*(\d+)\s*-\s*(\d+)\s*$/.exec(text) ?? [];
  return least ? { nodes: Number(least), max_nodes: Number(most) } : { nodes: number(text) };
}

const filled = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) =>
  value !== "" && value !== undefined && value !== false && !(Array.isArray(value) && !value.length) && !(value?.constructor === Object && !Object.keys(value).length)));

// The body of POST /allocations.
export function asRequest(form) {
  return filled({
    name: form.name.trim(),
    script: form.script,
    script_args: form.scriptArgs,
    vcluster: form.vcluster,
    project: form.project.trim(),
    tags: Object.fromEntries(pairs(form.tags)),
    environment: Object.fromEntries(pairs(form.environment)),
    cwd: form.cwd.trim(),
    uenv: form.uenv.trim(),
    image: form.image.trim(),
    tasks: form.tasks.trim(),
    depends_on: form.dependsOn.trim(),
    priority: form.priority === "normal" ? "" : form.priority,
    hold: form.hold,
    lifecycle: filled({ walltime: form.walltime.trim() }),
    resources: filled({
      ...nodeRange(form.nodes),
      cpus: form.cpus ? number(form.cpus) : "",
      memory: form.memory.trim(),
      gpus: form.gpus ? number(form.gpus) : "",
      exclusive: form.exclusive,
      constraints: filled({ features: form.features.split(",").map((word) => word.trim()).filter(Boolean) }),
    }),
  });
}

function flags(form) {
  const given = [
    ["name", form.name], ["nodes", form.nodes], ["walltime", form.walltime], ["cpus", form.cpus], ["memory", form.memory], ["gpus", form.gpus],
    ["task-group", form.tasks], ["vcluster", form.vcluster], ["project", form.project], ["chdir", form.cwd], ["depends-on", form.dependsOn],
    ["priority", form.priority === "normal" ? "" : form.priority], ["uenv", form.uenv], ["image", form.image], ["constraint", form.features],
    ...pairs(form.tags).map(([key, value]) => ["tag", `${key}=${value}`]),
    ...pairs(form.environment).map(([key, value]) => ["env", `${key}=${value}`]),
  ];
  const found = given.filter(([, value]) => String(value).trim()).map(([name, value]) => (String(value).includes("\n") ? `# ${String(value).split("=")[0]} has several lines, which a line of this kind cannot hold` : `--${name}=${shell(String(value).trim())}`));
  return [...found, ...(form.exclusive ? ["--exclusive"] : []), ...(form.hold ? ["--hold"] : [])];
}

// The script that a person could hand to `lattice submit` instead.
export function asScript(form) {
  const lines = form.script.split("\n");
  const head = lines[0].startsWith("#!") ? [lines.shift()] : ["#!/bin/sh"];
  return [...head, ...flags(form).map((flag) => (flag.startsWith("#") ? flag : `#LATTICE ${flag}`)), ...lines].join("\n");
}

// The form for another one like this allocation. `indices` are those of the tasks of a group.
export function asForm(allocation, indices = []) {
  const { details, resources } = allocation;
  const script = details?.script || (details ? `#!/bin/sh\nexec ${details.entrypoint.map(shell).join(" ")}\n` : BLANK.script);
  const many = details && details.max_nodes > resources.nodes ? `${resources.nodes}-${details.max_nodes}` : String(resources.nodes);
  return {
    ...BLANK,
    name: allocation.name,
    script,
    scriptArgs: details?.script_args ?? [],
    nodes: many,
    walltime: duration(allocation.walltime_s),
    cpus: resources.cpus ? String(resources.cpus) : "",
    memory: resources.memory_mb ? `${resources.memory_mb}M` : "",
    gpus: resources.gpus ? String(resources.gpus) : "",
    tasks: asRanges(indices) + (indices.length && allocation.tasks?.concurrency ? `%${allocation.tasks.concurrency}` : ""),
    vcluster: allocation.vcluster,
    project: allocation.project,
    priority: { 2: "low", 8: "high" }[allocation.preemption_class] ?? "normal",
    cwd: details?.cwd ?? "",
    tags: lines(allocation.tags),
    environment: lines(details?.environment ?? {}),
    features: resources.features.join(","),
    exclusive: details?.exclusive ?? false,
    uenv: (details?.uenv ?? []).map((each) => each.reference).join(","),
    image: details?.container?.image ?? "",
  };
}

// Sorted numbers in short: 1,4-7.
export function asRanges(numbers) {
  const runs = [];
  for (const number_ of numbers) {
    if (runs.length && number_ === runs.at(-1)[1] + 1) runs.at(-1)[1] = number_;
    else runs.push([number_, number_]);
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}

// What the form cannot say of an allocation, by name; `lattice resubmit` repeats it.
export function unsaid({ details, ...allocation }) {
  const rules = details?.constraints ?? {};
  const container = details?.container;
  const isSet = {
    "that it is a service": allocation.lifecycle && allocation.lifecycle !== "bounded",
    "exposed ports": allocation.expose?.length,
    probes: details?.probes?.length,
    "output files": details?.output && (details.output.stdout || details.output.stderr || details.output.stdin),
    "data that is staged": details?.data?.length || details?.stage_out?.length,
    "mounts of the container": container && (container.mounts.length || container.writable || container.workdir || container.no_home),
    "views of the image": details?.view?.length,
    "the choice of nodes": rules.topology || rules.nodes?.length || rules.exclude?.length || rules.storage_gbps || rules.require_unified_memory || rules.require_conformance
      || rules.gpu_type || rules.memory_gb || rules.allow_cxl_memory,
    "one task on each node": details?.per_node,
    notifications: details?.notify_on?.length,
    "the signal before the limit": details?.signal,
    "the size of scratch": details?.scratch_mb,
    "where its memory is": rules.memory_policy || rules.prefer_local_memory || rules.prefer_same_numa,
    checkpoints: allocation.checkpoint?.protocol,
    "that it is never preempted": allocation.no_preempt,
    "its end when it is idle": allocation.idle_end_s,
    "its last line on how it ended": details?.summary,
    "its umask": details?.umask,
    "what its Slurm command said": details?.slurm,
    "that it wants no mounts by default": details?.no_defaults,
    "the mutex": allocation.mutex,
    [`class ${allocation.preemption_class}`]: ![2, 5, 8].includes(allocation.preemption_class),
  };
  return Object.keys(isSet).filter((name) => isSet[name]);
}
