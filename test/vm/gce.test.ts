import { test } from 'node:test';
import { gce } from '../cloud/clouds.ts';
import { liveInMachine } from './cloud/life.ts';

test('persistent disks in a virtual machine are found by their names, formatted once, and never taken for one another', () =>
  liveInMachine(gce, {
    options: { hasScsi: true },
    prepare: 'modprobe -a virtio_scsi sd_mod',
    show: 'ls /sys/class/scsi_disk',
    disk: (diskName, { name, path }) => ({ name, path, diskName }),
  }));
