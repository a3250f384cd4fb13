import { leftObjects } from '../leftovers.ts';
import type { DeviceCluster } from './device-cluster.ts';

/** Of the pools themselves. */
const pools = /^(holdfast-(thin|pool)|\[.*\])$/;

/** Whatever is still there of volumes and snapshots, a line each: nothing, once everybody has deleted what was theirs. */
export async function leftOnDevices({ kubectl, vm }: DeviceCluster): Promise<string[]> {
  const lines = async (command: string) => (await vm.run(command)).split('\n').filter((line) => line !== '');
  const mounts = (await lines('cut -d " " -f 2 /proc/mounts')).filter((path) => /\/kubernetes\.io[~/]csi\//.test(path));
  const volumes = (await lines('lvm lvs --noheadings --options lv_name | tr -d " "')).filter(
    (name) => !pools.test(name),
  );
  const mapped = (await lines('dmsetup ls --target crypt')).filter((line) => line !== 'No devices found');
  const loops = (await lines('losetup --all')).filter((line) => !line.includes('/pools/default.img'));
  return [
    ...mounts.map((path) => `mount ${path}`),
    ...volumes.map((name) => `logical volume ${name}`),
    ...mapped.map((line) => `encrypted device ${line}`),
    ...loops.map((line) => `loop device ${line}`),
    ...(await leftObjects(kubectl)),
  ];
}
