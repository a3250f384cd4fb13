# A volume on the client whose driver is asked: nomad volume create volume.hcl
id        = "notes"
name      = "notes"
type      = "csi"
plugin_id = "holdfast-client-1"

capacity_min = "1GiB"
capacity_max = "1GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}
