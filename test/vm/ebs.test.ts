import { test } from 'node:test';
import { ebs } from '../cloud/clouds.ts';
import { liveInMachine } from './cloud/life.ts';

test('EBS volumes in a virtual machine are found by their serial numbers, formatted once, and never taken for one another', () =>
  liveInMachine(ebs, {
    options: { nvmePorts: 3 },
    prepare: 'modprobe nvme',
    show: 'ls /sys/class/nvme',
    disk: (serial, names) => ({ serial, ...names }),
  }));
