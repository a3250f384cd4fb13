import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = '/sys/fs/cgroup';

/** Makes a cgroup of that name, at the top or below another one: of the one hierarchy (v2), or of each controller's (v1). */
export function makeCgroup(name: string): void {
  if (name.includes('/')) makeCgroup(dirname(name));
  for (const hierarchy of hierarchies()) {
    const path = join(root, hierarchy, name);
    mkdirSync(path, { recursive: true });
    // A cpuset of v1 starts with no processor and no memory, and takes no process until it has both (cpuset(7)).
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      if (hierarchy === 'cpuset') writeFileSync(join(path, file), readFileSync(join(root, hierarchy, file)));
    }
  }
}

/** Removes it, with those in it. They have no process any more. */
export function removeCgroup(name: string): void {
  for (const hierarchy of hierarchies()) removeTree(join(root, hierarchy, name));
}

function hierarchies(): string[] {
  if (existsSync(join(root, 'cgroup.controllers'))) return ['.'];
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** The files in a cgroup are the kernel's: only directories can be removed. */
function removeTree(path: string): void {
  if (!existsSync(path)) return;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(join(path, entry.name));
  }
  rmdirSync(path);
}
