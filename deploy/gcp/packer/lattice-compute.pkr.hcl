# An image for servers and nodes: Debian with what their work needs and the provision bundle unpacked, so that a machine installs in seconds.
#
#     make archives && deploy/make-provision-bundle dist lattice-provision.tar.gz
#     cd deploy/gcp/packer && packer build -var project_id=PROJECT -var bundle=../../../lattice-provision.tar.gz lattice-compute.pkr.hcl

variable "project_id" {
  type = string
}

variable "zone" {
  type    = string
  default = "europe-west6-a"
}

variable "bundle" {
  type        = string
  description = "What deploy/make-provision-bundle wrote."
}

source "googlecompute" "lattice" {
  project_id              = var.project_id
  zone                    = var.zone
  source_image_family     = "debian-12"
  source_image_project_id = ["debian-cloud"]
  image_family            = "lattice"
  image_name              = "lattice-{{timestamp}}"
  machine_type            = "e2-standard-2"
  ssh_username            = "packer"
}

build {
  sources = ["source.googlecompute.lattice"]

  provisioner "file" {
    source      = var.bundle
    destination = "/tmp/lattice-provision.tar.gz"
  }

  provisioner "shell" {
    inline = [
      "sudo apt-get update",
      "sudo DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 etcd-server crun podman squashfs-tools",
      "sudo mkdir -p /opt/lattice-provision",
      "sudo tar -xzf /tmp/lattice-provision.tar.gz -C /opt/lattice-provision --strip-components=1",
      "rm /tmp/lattice-provision.tar.gz",
    ]
  }
}
