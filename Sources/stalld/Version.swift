/// The version of the command, of its package and of its manual: this is the one place.
let stalldVersion = "0.1.0"
