import { leftObjects } from '../leftovers.ts';
import type { NetworkCluster } from './network-cluster.ts';

const lines = (text: string) => text.split('\n').filter((line) => line !== '');

/** What the nodes still have of volumes, a line each: nothing, once no pod uses any. */
export async function leftOnNodes(cluster: NetworkCluster): Promise<string[]> {
  const looks = [
    `cut -d ' ' -f 2 /proc/mounts | grep '/kubernetes\\.io[~/]csi/' | sed 's/^/mount /'`,
    'ls /sys/class/iscsi_session 2>/dev/null | sed "s/^/connection /"',
    // The disk of the node itself is one, too.
    'grep -l tcp /sys/class/nvme/*/transport | sed "s/^/connection /"',
    'cat /sys/block/dm-*/dm/name | sed "s/^/device-mapper /"',
    'find /var/lib/files.holdfast.csi.dev /var/lib/disks.holdfast.csi.dev -name "*.json" -size +0 ! -name nvme-host.json | sed "s/^/note /"',
  ];
  const onNodes = await Promise.all(
    Array.from(cluster.nodes, async ([name, vm]) => {
      const text = await vm.run(`{ ${looks.join('; ')}; } || true`);
      return lines(text).map((line) => `${name}: ${line}`);
    }),
  );
  return onNodes.flat();
}

/** Whatever is still there of volumes, a line each: nothing, once all users have deleted their objects. */
export async function leftOnNetwork(cluster: NetworkCluster): Promise<string[]> {
  const files =
    'for part in volumes snapshots trash tmp; do ls -A /srv/files/export/holdfast/$part 2>/dev/null; done; true';
  return [
    ...(await leftOnNodes(cluster)),
    ...lines(await cluster.onStorage(files)).map((name) => `on the export: ${name}`),
    ...(await leftObjects(cluster.kubectl)),
  ];
}
