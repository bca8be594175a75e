/// The version of the command, the packages, the C library and the manual: this is the one place.
let stalldVersion = "0.9.0"
