# The driver for one Nomad client:
#
#   nomad job run -var node=client-1 holdfast.nomad.hcl
#
# A plugin for each client, since Nomad asks any controller of a plugin to make a volume, and only the client's own can.
# Wants the docker driver with privileged containers (allow_privileged) and bind mounts (volumes.enabled).

variable "node" {
  type        = string
  description = "The client's name: letters, digits and inner dashes."
}

variable "image" {
  type    = string
  default = "localhost/holdfast:0.2.0"
}

job "holdfast" {
  id   = "holdfast-${var.node}"
  type = "system"

  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

  group "driver" {
    task "holdfast" {
      driver = "docker"

      config {
        image           = var.image
        privileged      = true
        pid_mode        = "host"
        readonly_rootfs = true

        mount {
          type     = "bind"
          source   = "/dev"
          target   = "/dev"
          readonly = false
        }

        # LVM locks volume groups by files in here, against all others of the client.
        mount {
          type     = "bind"
          source   = "/run/lock"
          target   = "/run/lock"
          readonly = false
        }

        # Pools are mounted in here, and stay mounted without the driver.
        mount {
          type     = "bind"
          source   = "/var/lib/holdfast"
          target   = "/var/lib/holdfast"
          readonly = false
          bind_options {
            propagation = "rshared"
          }
        }
      }

      env {
        CSI_ENDPOINT         = "unix:///csi/csi.sock"
        HOLDFAST_NODE_ID     = "${node.unique.name}"
        HOLDFAST_KUBELET_DIR = "/local/csi"
      }

      csi_plugin {
        id                     = "holdfast-${var.node}"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
      }

      kill_timeout = "40s"

      resources {
        cpu        = 50
        memory     = 128
        memory_max = 1024
      }
    }
  }
}
