// A form as a submission, as a script with #LATTICE lines, and back.
import { duration, shell } from "./format.js";

export const BLANK = {
  name: "", script: "#!/bin/bash\n", nodes: "1", walltime: "", cpus: "", memory: "", gpus: "", tasks: "", vcluster: "", project: "",
  cwd: "", tags: "", environment: "", dependsOn: "", priority: "normal", uenv: "", image: "", features: "", hold: false, exclusive: false,
};

export const TEMPLATES = {
  "One command": { name: "hello", script: "#!/bin/bash\necho \"hello from $(hostname)\"\n", walltime: "10m" },
  "MPI on several nodes": { name: "mpi", script: "#!/bin/bash\nlattice launch --tasks-per-node 4 -- ./program\n", nodes: "4", walltime: "2h", exclusive: true },
  "Training with GPUs": { name: "train", script: "#!/bin/bash\npython train.py --epochs 10\n", gpus: "4", walltime: "12h" },
  "Many alike tasks": { name: "sweep", script: "#!/bin/bash\n./simulate --seed \"$LATTICE_TASK_INDEX\"\n", tasks: "0-99%20", walltime: "30m" },
};

const number = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim());
const pairs = (text) => text.split(/\n|\s(?=[\w.-]+=)/).map((line) => line.trim()).filter(Boolean).map((line) => {
  const place = line.indexOf("=");
  return place < 0 ? [line, ""] : [line.slice(0, place).trim(), line.slice(place + 1)];
});
const filled = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) =>
  value !== "" && value !== undefined && value !== false && !(Array.isArray(value) && !value.length) && !(value?.constructor === Object && !Object.keys(value).length)));

// The body of POST /allocations.
export function asRequest(form) {
  const [least, most] = form.nodes.split("-");
  return filled({
    name: form.name.trim(),
    script: form.script,
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
      nodes: number(least),
      max_nodes: most ? number(most) : "",
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
  const found = given.filter(([, value]) => String(value).trim()).map(([name, value]) => `--${name}=${shell(String(value).trim())}`);
  return [...found, ...(form.exclusive ? ["--exclusive"] : []), ...(form.hold ? ["--hold"] : [])];
}

// The script that a person could hand to `lattice submit` instead.
export function asScript(form) {
  const lines = form.script.split("\n");
  const head = lines[0].startsWith("#!") ? [lines.shift()] : ["#!/bin/sh"];
  return [...head, ...flags(form).map((flag) => `#LATTICE ${flag}`), ...lines].join("\n");
}

// The form for another one like this allocation.
export function asForm(allocation) {
  const { details, resources } = allocation;
  const script = details?.script || (details ? `#!/bin/sh\nexec ${details.entrypoint.map(shell).join(" ")}\n` : BLANK.script);
  const tasks = allocation.tasks ? `0-${allocation.tasks.size - 1}${allocation.tasks.concurrency ? `%${allocation.tasks.concurrency}` : ""}` : "";
  const many = details && details.max_nodes > resources.nodes ? `${resources.nodes}-${details.max_nodes}` : String(resources.nodes);
  return {
    ...BLANK,
    name: allocation.name,
    script,
    nodes: many,
    walltime: duration(allocation.walltime_s),
    cpus: resources.cpus ? String(resources.cpus) : "",
    memory: resources.memory_mb ? `${resources.memory_mb}M` : "",
    gpus: resources.gpus ? String(resources.gpus) : "",
    tasks,
    vcluster: allocation.vcluster,
    project: allocation.project,
    cwd: details?.cwd ?? "",
    tags: Object.entries(allocation.tags).map(([key, value]) => `${key}=${value}`).join("\n"),
    environment: Object.entries(details?.environment ?? {}).map(([key, value]) => `${key}=${value}`).join("\n"),
    features: resources.features.join(","),
    exclusive: details?.exclusive ?? false,
    uenv: (details?.uenv ?? []).map((each) => each.reference).join(","),
    image: details?.container?.image ?? "",
  };
}
