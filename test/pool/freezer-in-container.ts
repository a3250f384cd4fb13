import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Freezer } from '../../src/pool/freeze/freezer.ts';
import { parseVolumeId } from '../../src/volume/id.ts';
import { quiet } from '../support/pool-log.ts';

/** What a driver does that sees the processes of its container only: it ends the freeze of a volume's filesystem. */
const [dataDirectory = '', id = '', devicePath = '', major, minor] = process.argv.slice(2);
const volumeId = parseVolumeId(id);
if (volumeId === undefined) throw new Error('no volume');
const freezer = new Freezer({ dataDirectory, queue: new DiskQueue('test', 4), log: quiet, name: 'test' });
const device = { devicePath, device: { major: Number(major), minor: Number(minor) }, readonly: false };
const ended = await freezer.endUnseen({
  id: volumeId,
  content: { type: 'mount', fsType: 'ext4' },
  attached: [{ kind: 'device', ...device }],
});
process.stdout.write(`${ended}\n`);
