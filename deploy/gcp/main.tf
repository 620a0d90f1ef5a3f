# A cluster for tests: three servers, nodes, a registry for images, VictoriaMetrics. Reachable from `allowed_range` only.
#
#     terraform init && terraform apply -var project_id=PROJECT -var allowed_range=203.0.113.7/32
#     then on each machine: /opt/lattice-provision/install-quorum or install-compute (docs/admin/install.md)
#     terraform destroy

terraform {
  required_version = ">= 1.3"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 5.0"
    }
  }
}

variable "project_id" {
  type = string
}

variable "zone" {
  type    = string
  default = "europe-west6-a"
}

variable "allowed_range" {
  type        = string
  description = "Addresses that may reach the machines by SSH and the REST API, as CIDR."

  validation {
    condition     = can(cidrhost(var.allowed_range, 0)) && var.allowed_range != "0.0.0.0/0"
    error_message = "Give a range in CIDR notation, and not the whole Internet."
  }
}

variable "use_packer_image" {
  type        = bool
  default     = true
  description = "Start from the image of packer/lattice-compute.pkr.hcl; false: plain Debian."
}

variable "nodes" {
  type    = number
  default = 2
}

provider "google" {
  project = var.project_id
  zone    = var.zone
}

locals {
  image   = var.use_packer_image ? "projects/${var.project_id}/global/images/family/lattice" : "debian-cloud/debian-12"
  servers = { for number in range(1, 4) : "s${number}" => "e2-standard-2" }
  nodes   = { for number in range(1, var.nodes + 1) : "n${number}" => "e2-standard-4" }
  others  = { registry = "e2-small", metrics = "e2-small" }
}

resource "google_compute_network" "lattice" {
  name = "lattice"
}

resource "google_compute_firewall" "within" {
  name        = "lattice-within"
  network     = google_compute_network.lattice.name
  source_tags = ["lattice"]
  target_tags = ["lattice"]

  allow {
    protocol = "tcp"
  }
}

resource "google_compute_firewall" "outside" {
  name          = "lattice-outside"
  network       = google_compute_network.lattice.name
  source_ranges = [var.allowed_range]
  target_tags   = ["lattice"]

  allow {
    protocol = "tcp"
    ports    = ["22", "8080"]
  }
}

resource "google_compute_instance" "machine" {
  for_each     = merge(local.servers, local.nodes, local.others)
  name         = each.key
  machine_type = each.value
  tags         = ["lattice"]

  boot_disk {
    initialize_params {
      image = local.image
      size  = 20
    }
  }

  network_interface {
    network = google_compute_network.lattice.name
    access_config {}
  }

  shielded_instance_config {
    enable_secure_boot = true
  }
}

output "addresses" {
  value = { for name, machine in google_compute_instance.machine : name => machine.network_interface[0].access_config[0].nat_ip }
}
