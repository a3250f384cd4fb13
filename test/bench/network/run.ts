import { writeFileSync } from 'node:fs';
import { buildBundle } from '../../../scripts/build.ts';
import { Usage } from '../../../scripts/options.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../../vm/disk/volatile-disk.ts';
import { bundlePrograms } from '../../vm/machine/bundle.ts';
import { bootVirtualMachine } from '../../vm/machine/virtual-machine.ts';
import { nfsServer } from '../../vm/nfs/server.ts';
import { describeNetwork, resultsSchema } from './result.ts';

const usage =
  new Usage(`Measures volumes on NFS in a virtual machine with the Linux kernel's server: how many are made and deleted in a second,
beside the sequence of csi-driver-nfs, which mounts the share privately for each call; and reads and writes, beside a mount made by hand.
As root: npm run bench:network -- [options]
  --quick      a few minutes, for a first look
  --json FILE  the results for programs
`);
const { values } = usage.read({
  options: { quick: { type: 'boolean', default: false }, json: { type: 'string' } },
});
const [rounds, volumes] = values.quick ? [1, 8] : [5, 24];
const hour = 3600_000;

using scratch = new Scratch('bench-network');
using disk = new VolatileDisk(scratch, { name: 'export', sizeBytes: 2 * 2 ** 30 });
const { file } = await buildBundle(scratch.join('bundle'));
const programs = await bundlePrograms('../bench/network', ['in-guest']);
// Its clock counts instructions: a rate says how many of them an operation takes, whatever the host does meanwhile.
await using vm = await bootVirtualMachine({ scratch, disks: [disk], clock: 'instructions' });
await vm.run(nfsServer(vm, 'make /dev/vda'));
// mount.nfs(8), which the driver does not need.
await vm.run(`cp -a ${vm.nfsDirectory}/sbin/mount.nfs* /usr/sbin/ && cp -a ${vm.nfsDirectory}/usr/lib/. /usr/lib/`);
const command = `${process.execPath} ${programs}in-guest.mjs ${file} ${rounds} ${volumes}`;
const said = await vm.run(command, { timeoutMs: hour });
const text = /^RESULTS (.*)$/m.exec(said)?.[1] ?? '';
const results = resultsSchema.parse(JSON.parse(text));
process.stdout.write(`${describeNetwork(results)}\n`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`);
