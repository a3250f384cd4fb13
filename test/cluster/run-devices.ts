import { setDeviceCluster } from './harness/devices/current.ts';
import { DeviceCluster } from './harness/devices/device-cluster.ts';
import { leftOnDevices } from './harness/devices/left-on-devices.ts';
import { runFiles } from './harness/run-files.ts';

/* Runs test files in a Kubernetes whose node is a virtual machine with disks: see run.ts. */

await runFiles(process.argv.slice(2), {
  name: 'devices',
  start: () => DeviceCluster.start(),
  async prepare(cluster) {
    await cluster.driver.install();
    setDeviceCluster(cluster);
  },
  leftovers: leftOnDevices,
});
