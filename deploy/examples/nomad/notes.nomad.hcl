# A job that uses the volume of volume.hcl. Nomad puts it on the volume's client.
job "notes" {
  group "notes" {
    volume "notes" {
      type            = "csi"
      source          = "notes"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "notes" {
      driver = "docker"

      config {
        image   = "busybox:1.37"
        command = "sh"
        args    = ["-c", "date >> /notes/starts; cat /notes/starts; exec sleep 1000000"]
      }

      volume_mount {
        volume      = "notes"
        destination = "/notes"
      }

      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
