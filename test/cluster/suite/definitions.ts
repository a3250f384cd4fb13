/**
 * What the suite is told of the driver: https://github.com/kubernetes/kubernetes/tree/master/test/e2e/storage/external
 * @param hasOneNode whether all volumes are on the same node
 */
export function driverDefinition(storageClass: string, filesystem: string, hasOneNode: boolean): object {
  return {
    StorageClass: { FromExistingClassName: storageClass },
    SnapshotClass: { FromExistingClassName: 'holdfast' },
    GroupSnapshotClass: { FromExistingClassName: 'holdfast' },
    VolumeAttributesClass: { FromExistingClassName: 'holdfast-thick' },
    InlineVolumes: [{ Attributes: { size: '320Mi', fsType: filesystem }, Shared: false, ReadOnly: false }],
    DriverInfo: {
      Name: 'holdfast.csi.dev',
      // mkfs.xfs makes nothing smaller.
      SupportedSizeRange: { Min: '300Mi' },
      SupportedFsType: { '': {}, [filesystem]: {} },
      SupportedMountOption: { noatime: {} },
      TopologyKeys: ['topology.holdfast.dev/node'],
      StressTestOptions: { NumPods: 5, NumRestarts: 3 },
      VolumeSnapshotStressTestOptions: { NumPods: 3, NumSnapshots: 3 },
      VolumeGroupSnapshotStressTestOptions: { NumPods: 3, NumSnapshots: 3 },
      VolumeModifyStressTestOptions: { NumPods: 3 },
      Capabilities: {
        persistence: true,
        block: true,
        exec: true,
        fsGroup: true,
        multipods: true,
        singleNodeVolume: true,
        multiplePVsSameID: true,
        readWriteOncePod: true,
        topology: true,
        capacity: true,
        snapshotDataSource: true,
        pvcDataSource: true,
        // Its group is a StatefulSet of three pods, which the scheduler spreads: volumes of several nodes have no one instant.
        groupSnapshot: hasOneNode,
        controllerExpansion: true,
        nodeExpansion: true,
        onlineExpansion: true,
        offlineExpansion: true,
        // A volume is on one node: nothing for several nodes. The number of volumes has no limit unless one is set.
        RWX: false,
        capReadOnlyMany: false,
        volumeLimits: false,
        // fsGroup is the kubelet's business, and mkfs knows no owner.
        volumeMountGroup: false,
        // Wants a node with SELinux.
        seLinuxMount: false,
        // Wants the external-snapshot-metadata sidecar.
        snapshotMetadata: false,
      },
    },
  };
}
