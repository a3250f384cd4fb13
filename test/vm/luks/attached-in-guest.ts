/** Runs in the virtual machine: encrypted disks that a program attaches, or a cloud, over loop devices. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { after, before, describe } from 'node:test';
import { LinkFinder } from '../../../src/pool/cloud-disk/attached/finder.ts';
import { ebsNodeKind } from '../../../src/pool/kinds/aws-ebs/node.ts';
import { attachDisk, sparseFile } from '../../support/disk.ts';
import { detachLoopDevice, loopsOver } from '../../support/left-behind.ts';
import { execKindWith, ProgramDirectory } from '../../support/programs.ts';
import { describeEncryptedDisk } from '../network-disk/encrypted.ts';

const sizeMebibytes = 320;
const grow = (image: string) => (size: string) => void sparseFile(image, Number.parseInt(size, 10));

describe('a disk that a program attaches', () => {
  const directory = '/xfs/program';
  const image = `${directory}/disk.img`;
  const programs = new ProgramDirectory();
  const program = { name: 'disk', path: programs.example('disk'), presents: 'device' } as const;

  before(() => {
    mkdirSync(directory);
    sparseFile(image, sizeMebibytes);
  });
  after(() => programs[Symbol.dispose]());

  describeEncryptedDisk({
    kindIn: (scratch) => execKindWith([program], scratch),
    context: { kind: 'exec', program: 'disk', 'options.image': image },
    image,
    grow: grow(image),
    nothingConnected: () => assert.deepEqual(loopsOver(directory), []),
  });
});

describe('a disk that a cloud attaches', () => {
  const directory = '/xfs/cloud';
  const image = `${directory}/disk.img`;
  const [volumeId, serial] = ['vol-0123456789abcdef0', 'vol0123456789abcdef0'];
  let device: string;

  before(() => {
    mkdirSync(directory);
    device = attachDisk(sparseFile(image, sizeMebibytes));
    symlinkSync(device, `${directory}/${serial}`);
  });
  after(() => detachLoopDevice(device));

  describeEncryptedDisk({
    kindIn: () => ebsNodeKind(new LinkFinder(directory)),
    handle: volumeId,
    context: { kind: 'aws-ebs', volumeId },
    image,
    grow(size) {
      grow(image)(size);
      execFileSync('losetup', ['--set-capacity', device]);
    },
    nothingConnected: () => assert.deepEqual(loopsOver(directory), [device]),
  });
});
