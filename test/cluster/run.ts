import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Usage } from '../../scripts/options.ts';

const places = ['.', 'fleet', 'devices', 'network'] as const;
type Place = (typeof places)[number];

const directory = import.meta.dirname;
const usage = new Usage(`Our manifests and image on a real Kubernetes. As root: npm run test:cluster -- [word]...
The tests whose files have one of the words in their names, or all: those of one node, and those whose words begin with
fleet, of three nodes; with devices, of a node with disks, which is a virtual machine; with network, of two such nodes
and servers of NFS, NVMe/TCP and iSCSI.
`);
const { positionals: words } = usage.read({ allowPositionals: true });
usage.requireKnown(
  words,
  (word) => places.some((place) => filesIn(place, [word]).length > 0),
  'no test file has this word in its name',
);
const suites = {
  'run-one-node.ts': filesIn('.', words),
  'run-fleet.ts': filesIn('fleet', words),
  'run-devices.ts': filesIn('devices', words),
  'run-network.ts': filesIn('network', words),
};

let child: ChildProcess | undefined;
let stopped = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // Ctrl-C reaches the child by itself.
  process.on(signal, () => {
    stopped = true;
    if (signal === 'SIGTERM') child?.kill(signal);
  });
}

let failed = false;
for (const [program, files] of Object.entries(suites)) {
  if (files.length === 0 || stopped) continue;
  // A process for each: node:test runs files in its own process once.
  child = spawn(process.execPath, [join(directory, program), ...files], { stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  if (code !== 0) failed = true;
}
process.exitCode = failed || stopped ? 1 : 0;

function filesIn(place: Place, chosen: readonly string[]): string[] {
  return readdirSync(join(directory, place))
    .filter((name) => name.endsWith('.test.ts'))
    .filter((name) => chosen.length === 0 || chosen.some((word) => isMeant(word, place, name)))
    .map((name) => join(directory, place, name));
}

function isMeant(word: string, place: Place, name: string): boolean {
  if (place === '.') return name.includes(word);
  return word.startsWith(place) && `${place}/${name}`.includes(word);
}
