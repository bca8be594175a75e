// C++ exceptions, as fast as they go.
#ifndef CXX_THROW_H
#define CXX_THROW_H

#ifdef __cplusplus
extern "C" {
#endif

/// Throws through ten frames with destructors, and catches, for so many seconds of processor time. @return how many in
/// a second.
double throws_per_second(double seconds);

#ifdef __cplusplus
}
#endif

#endif
