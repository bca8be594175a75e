// C++ frames for the victims: exceptions in flight.
#ifndef VICTIM_CXX_H
#define VICTIM_CXX_H

#ifdef __cplusplus
extern "C" {
#endif

/// Throws from ten frames down, through destructors, and catches. @return how many destructors ran.
int victim_cxx_throw(void);

/// `victim_cxx_throw`, for a callback.
void victim_cxx_throw_once(void);

#ifdef __cplusplus
}
#endif

#endif
