import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { busOf } from './bus.ts';

test('a disk is known by its place in the tree of devices, and a bridge on the way by what is nearest to it', () => {
  const pci = '/sys/devices/pci0000:00';
  for (const [place, name, bus] of [
    [`${pci}/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda`, 'sda', 'ata'],
    [`${pci}/0000:00:14.0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb`, 'sdb', 'usb'],
    [`${pci}/0000:02:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdc`, 'sdc', 'scsi'],
    [`${pci}/0000:00:04.0/virtio3/host0/target0:0:0/0:0:0:0/block/sdd`, 'sdd', 'scsi'],
    [`${pci}/0000:00:03.0/virtio2/block/vda`, 'vda', 'virtio'],
    [`${pci}/0000:00:1d.0/0000:3d:00.0/nvme/nvme0/nvme0n1`, 'nvme0n1', 'nvme'],
    ['/sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1', 'nvme0n1', 'nvme'],
    [`${pci}/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0`, 'mmcblk0', 'mmc'],
    ['/sys/devices/platform/host5/session1/target5:0:0/5:0:0:1/block/sde', 'sde', 'network'],
    [`${pci}/0000:05:00.0/host7/rport-7:0-2/target7:0:0/7:0:0:0/block/sdf`, 'sdf', 'network'],
    ['/sys/devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1', 'nvme1n1', 'network'],
    ['/sys/devices/vbd-51712/block/xvda', 'xvda', 'other'],
  ] as const) {
    assert.equal(busOf(place, name), bus, place);
  }
});

test('a namespace of NVMe above several paths is of a network if one of them is', () => {
  const root = mkdtempSync(join(tmpdir(), 'sysfs-'));
  const place = join(root, 'devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1');
  const connect = (controller: string, transport: string) => {
    const directory = join(place, '..', controller);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'transport'), `${transport}\n`);
  };
  try {
    connect('nvme0', 'pcie');
    assert.equal(busOf(place, 'nvme0n1'), 'nvme');
    connect('nvme1', 'tcp');
    assert.equal(busOf(place, 'nvme0n1'), 'network');
  } finally {
    rmSync(root, { recursive: true });
  }
});
