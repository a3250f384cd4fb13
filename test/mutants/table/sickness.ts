import type { Mutant } from '../mutant.ts';

const faults = { file: 'src/kernel/block/disk-fault.ts', killer: 'src/kernel/block/disk-fault.test.ts' } as const;
const sickPool = { file: 'src/pool/supervisor/sick-pool.ts', killer: 'test/pool/devices.test.ts' } as const;
const catalog = { file: 'src/pool/catalog/catalog.ts' } as const;
const supervisor = { file: 'src/pool/supervisor/supervisor.ts', killer: 'test/grpc/quarantine.test.ts' } as const;
const capacity = { file: 'src/controller/volumes/capacity.ts', killer: 'test/grpc/quarantine.test.ts' } as const;
const condition = { file: 'src/pool/condition.ts', killer: 'test/grpc/quarantine.test.ts' } as const;
const queue = { file: 'src/kernel/call/disk-queue.ts', killer: 'src/kernel/call/disk-queue.test.ts' } as const;

const hangs = 'design 3.7';

/** A sick disk hurts its own pool only, and no longer than it is sick. */
export const sicknessMutants: readonly Mutant[] = [
  {
    name: 'a disk of a group that fails while it is asked is no fault of the pool',
    file: 'src/pool/kinds/lvm/group/ask-disks.ts',
    text: '  asks.onFailure = undefined;\n',
    replacement: '',
    killer: 'src/pool/kinds/lvm/group/ask-disks.test.ts',
  },
  {
    name: 'each disk of a pool has all of the time to answer',
    file: 'src/pool/supervisor/question.ts',
    killer: 'src/pool/supervisor/question.test.ts',
    text: '      this.#unnamedSinceMs = this.#now();\n',
    replacement: '',
    only: 'H23',
  },
  {
    name: 'a disk that does not answer keeps nobody from asking the others',
    file: 'src/pool/kinds/lvm/group/ask-disks.ts',
    killer: 'src/pool/kinds/lvm/group/ask-disks.test.ts',
    text: '{ length: disksAskedAtOnce }',
    replacement: '{ length: 1 }',
    only: 'H23',
  },
  {
    name: 'an I/O error is a fault of the disk',
    ...faults,
    text: "['EIO', ",
    replacement: "['EIO?', ",
  },
  {
    name: 'a lost connection is a fault of the disk',
    ...faults,
    text: "  ['ENOLINK', 'its disk has lost its connection'],\n",
    replacement: '',
  },
  {
    name: 'a damaged filesystem is a fault of the disk',
    ...faults,
    text: "  ['EUCLEAN', 'its filesystem is damaged'],\n",
    replacement: '',
  },
  {
    name: 'a filesystem that is gone is a fault of the disk',
    ...faults,
    text: "  ['ESTALE', 'its filesystem is gone'],\n",
    replacement: '',
  },
  {
    name: 'a kernel without the filesystem is no fault of the disk',
    ...faults,
    text: ' || callsWithoutDisk.has(error.syscall)',
    replacement: '',
  },
  {
    name: "an error of the driver's own is no fault of the disk",
    ...faults,
    text: "return error instanceof Error && 'syscall' in error && typeof error.syscall === 'string';",
    replacement: 'return error instanceof Error;',
  },
  {
    name: 'a pool whose disk answers with an error goes into quarantine',
    ...supervisor,
    text: 'if (reason !== undefined && this.#isAt(pool)) this',
    replacement: "if (reason === '' && this.#isAt(pool)) this",
    only: 'a directory: well again',
  },
  {
    name: 'a disk is asked at once how it is when a call fails for it',
    ...supervisor,
    text: 'this.#isSuspect ||= diskFaultOf(error) !== undefined;',
    replacement: 'this.#isSuspect ||= error === undefined;',
    only: 'a directory: well again',
  },
  {
    name: 'a sick pool is opened again',
    ...supervisor,
    text: "    else if (this.#state.state !== 'opening') this.#tryAgain(performance.now());\n",
    replacement: '',
    only: 'a directory: well again',
  },
  {
    name: 'a pool whose disk does not answer is given up',
    ...supervisor,
    text: 'if (silent !== undefined) {',
    replacement: 'if (silent !== undefined && sickAfterMs === 0) {',
    only: hangs,
  },
  {
    name: 'who waits for a disk that hangs is let go when its pool is given up',
    ...supervisor,
    text: '    pool.queue.close(error);\n',
    replacement: '',
    only: hangs,
  },
  {
    name: 'what is mounted is undone also while its pool is in quarantine',
    ...queue,
    text: '    if (reason === undefined) return work(this);\n',
    replacement: '    if (reason === undefined) return work(this);\n    if (reason !== null) throw reason;\n',
    killer: 'test/grpc/quarantine.test.ts',
    only: hangs,
  },
  {
    name: 'of a volume whose pool is in quarantine the condition tells',
    ...condition,
    text: 'if (!(error instanceof PoolQuarantined)) throw error;',
    replacement: "if (!(error instanceof PoolQuarantined && error.message === '')) throw error;",
    only: hangs,
  },
  {
    name: 'a pool in quarantine promises nothing',
    ...capacity,
    text: 'error instanceof Impossible || error instanceof PoolQuarantined',
    replacement: 'error instanceof Impossible',
    only: hangs,
  },
  {
    name: 'a pool never has more worker threads than its share',
    ...queue,
    text: ' && this.#running.size < this.#limit) {',
    replacement: ') {',
  },
  {
    name: 'a queue has a place',
    ...queue,
    text: 'if (!Number.isInteger(limit) || limit < 1) throw',
    replacement: 'if (!Number.isInteger(limit)) throw',
  },
  {
    name: 'what waits in a queue gets its place',
    ...queue,
    text: '      this.#fill();\n    });',
    replacement: '    });',
  },
  {
    name: 'a device of another pool is left alone by a pool whose disk cannot be asked',
    ...sickPool,
    text: '      if (seen === undefined) return;\n',
    replacement: '',
    only: 'whose disk cannot be asked',
  },
  {
    name: 'of a volume whose pool cannot be measured the condition tells',
    ...catalog,
    text: '(await this.#repairCondition(record).catch(unreadable))',
    replacement: '(await this.#repairCondition(record))',
    killer: 'test/pool/hidden-pool.test.ts',
    only: 'backing file somebody has taken away',
  },
];
