import type { VirtualMachine } from './virtual-machine.ts';

/** Starts Debian's udevd in a machine, which has none of its own, and waits until it knows all devices. */
export async function startUdev(vm: VirtualMachine): Promise<void> {
  const parts = ['bin', 'etc', 'lib', 'usr'].map((part) => `cp -a ${vm.udevDirectory}/${part}/. /${part}/`);
  const triggers = ['subsystems', 'devices'].map((type) => `udevadm trigger --type=${type} --action=add`);
  const start = ['mkdir -p /run/udev', 'env --unset=DM_DISABLE_UDEV /lib/systemd/systemd-udevd --daemon'];
  await vm.run([...parts, ...start, ...triggers, 'udevadm settle'].join(' && '));
}
